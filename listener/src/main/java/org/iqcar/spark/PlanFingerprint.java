package org.iqcar.spark;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Hashes that recognise a recurring query: its plan without ids, literals, dates and run numbers.
 *
 * <p>The analyzer computes the same ones from event logs (analyzer/iqcar/eventlog/fingerprint.py);
 * a test holds the two together.
 */
final class PlanFingerprint {
  /** Hex digits kept of SHA-256. */
  static final int HASH_DIGITS = 32;

  private static final String OPERAND = "[^#()\\[\\],]*?";

  /** A pattern and what replaces it, in texts that hold what each match holds. */
  private static final class Step {
    final String held;
    final Pattern pattern;
    final String instead;

    Step(String held, String pattern, String instead) {
      this.held = held;
      this.pattern = PyRegex.compile(pattern);
      this.instead = instead;
    }
  }

  private static final Step[] LITERALS = {
    new Step("Filters: [", "%<(DataFilters|PartitionFilters|PushedFilters): \\[(\\*?\\(*%w*\\(*%w+)"
        + "%.*?(?=, [A-Z]%w*: |%$)", "$1: [$2"),
    new Step("Location: ", "Location: (%w+)%s*(?:\\(%d+ paths\\))?%s*\\[([^,\\]]*)[^\\]]*\\]?",
        "Location: $1[$2]"),
    new Step("(", "%<(EqualTo|EqualNullSafe|GreaterThan|GreaterThanOrEqual|LessThan|LessThanOrEqual"
        + "|StringStartsWith|StringEndsWith|StringContains)\\(([^,()]+),[^()]*\\)", "$1($2,?)"),
    new Step("In(", "%<In\\(([^,()\\[\\]]+),%s*\\[[^\\]]*\\]?\\)?", "In($1,?)"),
    new Step(" ", "(<=>|<=|>=|=|<|>|%<(?:LIKE|RLIKE|THEN|ELSE)%>) " + OPERAND
        + "(?=\\)|\\]|,| AND | OR | WHEN | THEN | ELSE | END|%$)", "$1 ?"),
    new Step("(", "\\((" + OPERAND + ") (<=>|<=|>=|=|<|>) (?=[^ ]*#)", "(? $2 "),
    new Step("IN", "%<(IN|INSET) \\([^()#]*\\)", "$1 (?)"),
    new Step("IN", "%<(IN|INSET) [^()#,\\]]*(?=\\)|\\]|,)", "$1 ?"),
    new Step("(", "%<(Contains|StartsWith|EndsWith|like|rlike)\\((%w+#%d+L?), " + OPERAND + "\\)",
        "$1($2, ?)"),
  };
  private static final Step[] IDS = {
    new Step("[", ",?%s*\\[(?:plan_id|id)=#?%d+\\]", ""),
    new Step("#", "#x?%d+L?", ""),
    new Step("-", "(?iu)%<[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}%>", "?"),
    new Step("Lambda", "\\$\\$?Lambda[$/%W.@]*", "Lambda"),
    new Step("@", "@[0-9a-f]{4,}%>", "@?"),
    new Step("",
        "(?<![0-9A-Za-z])(?=[0-9a-f]*%d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?![0-9A-Za-z])", "?"),
    new Step("-", "%<%d{4}-%d{1,2}-%d{1,2}(?:[T ]%d{1,2}(?::%d{1,2}){1,2}(?:\\.%d+)?Z?)?", "?"),
    new Step("", "(?<![%W$])-?%d+(?:\\.%d+)?(?:[eE][+\\-]?%d+)?(?:BD|[LDSBdf])?(?![%W])", "?"),
    new Step("", "(?<=[\\-=/.])%d+(?=[/\\-.\\]]|%$)", "?"),
    new Step("/", "(?<=[%W\\-])%d+(?=/)", "?"),
    // Possessive, so that a long list does not nest: nothing follows that could give back.
    new Step("?", "\\?(?:%s*,%s*\\?)++", "?"),
    new Step("", "%s+", " "),
  };
  private static final Pattern CODEGEN = PyRegex.compile("%s*\\(%d+\\)%$");
  private static final Pattern LINES =
      Pattern.compile("\\r\\n|[\\n\\r\\x0b\\x0c\\x1c-\\x1e\\x85\\u2028\\u2029]");

  private PlanFingerprint() {}

  /** A line of a plan without what differs from run to run. */
  static String normalise(String line) {
    String text = replace(LITERALS, line);
    text = quotedToMark(text, '\'', true);
    text = quotedToMark(text, '"', false);
    return PyRegex.strip(replace(IDS, text));
  }

  /** Hashes a plan tree: each node's depth, name and text, in the order Spark prints them. */
  static String hash(PlanNode plan) {
    List<String> lines = new ArrayList<>();
    Deque<PlanNode> stack = new ArrayDeque<>();
    Deque<Integer> depths = new ArrayDeque<>();
    stack.push(plan);
    depths.push(0);
    while (!stack.isEmpty()) {
      PlanNode node = stack.pop();
      int depth = depths.pop();
      String name = normalise(CODEGEN.matcher(node.name).replaceAll(""));
      lines.add(depth + " " + name + ": " + normalise(node.text));
      for (int i = node.children.size() - 1; i >= 0; i--) {
        stack.push(node.children.get(i));
        depths.push(depth + 1);
      }
    }
    return hash(lines);
  }

  /** Hashes a plan that is known only as text. */
  static String hashText(String text) {
    List<String> lines = new ArrayList<>();
    for (String line : LINES.split(text)) {
      String normal = normalise(line);
      if (!normal.isEmpty()) {
        lines.add(normal);
      }
    }
    return hash(lines);
  }

  private static String hash(List<String> lines) {
    StringBuilder all = new StringBuilder();
    for (String line : lines) {
      all.append(line).append('\n');
    }
    return sha256(all.toString());
  }

  /** The first digits of a text's SHA-256. */
  static String sha256(String text) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      StringBuilder hex = new StringBuilder();
      for (int i = 0; i < HASH_DIGITS / 2; i++) {
        hex.append(String.format("%02x", digest[i]));
      }
      return hex.toString();
    } catch (NoSuchAlgorithmException absent) {
      throw new IllegalStateException(absent);
    }
  }

  private static String replace(Step[] steps, String line) {
    String text = line;
    for (Step step : steps) {
      if (text.contains(step.held)) {
        text = step.pattern.matcher(text).replaceAll(step.instead);
      }
    }
    return text;
  }

  /**
   * Quoted text becomes a question mark: {@code '(?:[^'\\]|\\.|'')*'} or {@code
   * "(?:[^"\\]|\\.)*"}, which Java would match by nesting as deep as the text is long.
   *
   * @param doubled whether two quotes in a row are a quote inside
   */
  private static String quotedToMark(String text, char quote, boolean doubled) {
    StringBuilder out = null;
    int copied = 0;
    int at = text.indexOf(quote);
    while (at >= 0) {
      int end = endOfQuoted(text, at, quote, doubled);
      if (end > 0) {
        out = out == null ? new StringBuilder() : out;
        out.append(text, copied, at).append('?');
        copied = end;
      }
      at = text.indexOf(quote, end > 0 ? end : at + 1);
    }
    return out == null ? text : out.append(text, copied, text.length()).toString();
  }

  /** Just behind the last quote that may end it, −1 without any. */
  private static int endOfQuoted(String text, int start, char quote, boolean doubled) {
    int end = -1;
    int at = start + 1;
    while (at < text.length()) {
      char letter = text.charAt(at);
      if (letter == quote) {
        end = at + 1;
        if (!doubled || end >= text.length() || text.charAt(end) != quote) {
          return end;
        }
        at += 2;
      } else if (letter == '\\') {
        if (at + 1 >= text.length() || text.charAt(at + 1) == '\n') {
          return end;
        }
        at += 1 + Character.charCount(text.codePointAt(at + 1));
      } else {
        at++;
      }
    }
    return end;
  }
}
