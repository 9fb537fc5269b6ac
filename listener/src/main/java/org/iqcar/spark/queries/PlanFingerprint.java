package org.iqcar.spark.queries;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.iqcar.spark.text.PyRegex;

/**
 * Hashes that recognise a recurring query: its plan without ids, literals, dates and run numbers.
 *
 * <p>The analyzer computes the same ones from event logs (analyzer/iqcar/eventlog/events/fingerprint.py);
 * a test holds the two together.
 */
public final class PlanFingerprint {
  /** Hex digits kept of SHA-256. */
  static final int HASH_DIGITS = 32;

  /** Characters kept of one line of a plan. */
  static final int MAX_LINE = 1_000_000;

  private static final String OPERAND = "[^#()\\[\\],]*";

  /**
   * A pattern and what replaces it, in texts that hold what each match holds. A pattern tries each
   * letter a few times at most: what it repeats is possessive, or ends before its next start.
   */
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

  private static final Pattern FILTERS = PyRegex.compile(
      "%<(DataFilters|PartitionFilters|PushedFilters): \\[(\\*?+\\(*+%w++(?:\\(++%w++)?+)");
  private static final Pattern END_OF_FILTERS = PyRegex.compile(", [A-Z]%w*+: |\\n");
  private static final Pattern OPERATOR =
      PyRegex.compile("(?:<=>|<=|>=|=|<|>|%<(?:LIKE|RLIKE|THEN|ELSE)) ");
  private static final Pattern END_OF_OPERAND = PyRegex.compile(
      "[#()\\[\\],]| AND | OR | WHEN | THEN | ELSE | END|%$");
  private static final Pattern IN = PyRegex.compile("%<(?:IN|INSET) ");
  private static final Pattern END_OF_LIST = Pattern.compile("[()#,\\]]");
  private static final Pattern PLAN_ID = PyRegex.compile("\\[(?:plan_id|id)=#?+%d++\\]");
  private static final Pattern CODEGEN = PyRegex.compile("\\(%d++\\)\\z");

  private static final Step[] PLACES_AND_PUSHED = {
    new Step("Location: ",
        "Location: (%w++)%s*+(?:\\(%d++ paths\\))?+%s*+\\[([^,\\]]*+)[^\\]]*+\\]?+",
        "Location: $1[$2]"),
    new Step("(", "%<(EqualTo|EqualNullSafe|GreaterThan|GreaterThanOrEqual|LessThan|LessThanOrEqual"
        + "|StringStartsWith|StringEndsWith|StringContains)\\(([^,()]++),[^()]*+\\)", "$1($2,?)"),
    new Step("In(", "%<In\\(([^,()\\[\\]]++),%s*+\\[[^\\]]*+\\]?+\\)?+", "In($1,?)"),
  };
  private static final Step[] COMPARED = {
    new Step("#", "\\((" + OPERAND + "?) (<=>|<=|>=|=|<|>) (?=[^ #]*+#)", "(? $2 "),
    new Step("IN", "%<(IN|INSET) \\([^()#]*+\\)", "$1 (?)"),
  };
  private static final Step[] CALLED = {
    new Step("(", "%<(Contains|StartsWith|EndsWith|like|rlike)\\((%w++#%d++L?+), "
        + OPERAND + "+\\)", "$1($2, ?)"),
  };
  private static final Step[] IDS = {
    new Step("#", "#x?+%d++L?+", ""),
    new Step("-", "%<[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}%>", "?"),
    new Step("Lambda", "\\$\\$?+Lambda[$/%W.@]*+", "Lambda"),
    new Step("@", "@[0-9a-f]{4,}+%>", "@?"),
    new Step("", "(?<![0-9A-Za-z])(?=[0-9]*+[a-f])(?=[a-f]*+[0-9])[0-9a-f]{8,}+(?![0-9A-Za-z])",
        "?"),
    new Step("-", "%<%d{4}-%d{1,2}-%d{1,2}(?:[T ]%d{1,2}(?::%d{1,2}){1,2}(?:\\.%d++)?Z?)?", "?"),
    // Starts at the first digit alone, and gives back digits one by one.
    new Step("", "(?<![%W$])-?%d+(?:\\.%d+)?(?:[eE][+\\-]?%d+)?(?:BD|[LDSBdf])?(?![%W])", "?"),
    new Step("", "(?<=[\\-=/.])%d++(?=[/\\-.\\]]|%$)", "?"),
    new Step("/", "(?<!%d)(?:(?<=[%W\\-])|(%d))%d++(?=/)", "$1?"),
    // Possessive, so that a long list does not nest: nothing follows that could give back.
    new Step("?", "\\?(?:%s*+,%s*+\\?)++", "?"),
  };
  private static final Pattern LINES =
      Pattern.compile("\\r\\n|[\\n\\r\\x0b\\x0c\\x1c-\\x1e\\x85\\u2028\\u2029]");

  private PlanFingerprint() {}

  /** A line of a plan without what differs from run to run. */
  static String normalise(String line) {
    String text = line;
    if (line.length() > MAX_LINE && PyRegex.length(line) > MAX_LINE) {
      text = line.substring(0, line.offsetByCodePoints(0, MAX_LINE));
    }
    text = firstOfFilters(text);
    text = replace(PLACES_AND_PUSHED, text);
    text = operandToMark(text, OPERATOR, END_OF_OPERAND, "#([", true);
    text = replace(COMPARED, text);
    text = operandToMark(text, IN, END_OF_LIST, "#(", false);
    text = replace(CALLED, text);
    text = quotedToMark(text, '\'', true);
    text = quotedToMark(text, '"', false);
    return PyRegex.oneBlank(replace(IDS, withoutPlanIds(text)));
  }

  /** Hashes a plan tree: each node's depth, name and text, in the order Spark prints them. */
  public static String hash(PlanNode plan) {
    List<String> lines = new ArrayList<>();
    Deque<PlanNode> stack = new ArrayDeque<>();
    Deque<Integer> depths = new ArrayDeque<>();
    stack.push(plan);
    depths.push(0);
    while (!stack.isEmpty()) {
      PlanNode node = stack.pop();
      int depth = depths.pop();
      String name = normalise(withoutNumber(node.name));
      lines.add(depth + " " + name + ": " + normalise(node.text));
      for (int i = node.children.size() - 1; i >= 0; i--) {
        stack.push(node.children.get(i));
        depths.push(depth + 1);
      }
    }
    return hash(lines);
  }

  /** Hashes a plan that is known only as text. */
  public static String hashText(String text) {
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

  /** The next place from one on where a pattern matches; kept for the starts up to there. */
  private static final class Ahead {
    private final Matcher match;
    private final int length;
    private int at = -1;

    Ahead(Pattern pattern, String text) {
      match = pattern.matcher(text);
      length = text.length();
    }

    int from(int start) {
      if (at < start) {
        at = match.find(start) ? match.start() : length;
      }
      return at;
    }
  }

  /** Of a scan's filters the first column stays. */
  private static String firstOfFilters(String text) {
    if (!text.contains("Filters: [")) {
      return text;
    }
    Ahead end = new Ahead(END_OF_FILTERS, text);
    StringBuilder out = new StringBuilder();
    int copied = 0;
    Matcher start = FILTERS.matcher(text);
    for (boolean found = start.find(); found;) {
      int at = end.from(start.end());
      boolean ends = at >= text.length() - 1 || text.charAt(at) != '\n';
      if (ends) {
        out.append(text, copied, start.start());
        out.append(start.group(1)).append(": [").append(start.group(2));
        copied = at;
      }
      found = start.find(ends ? at : start.start() + 1);
    }
    return out.append(text, copied, text.length()).toString();
  }

  /**
   * What is between a start and the next of the ends becomes a question mark.
   *
   * @param not ends that show that it is no constant
   * @param last whether the end of the text is an end
   */
  private static String operandToMark(
      String text, Pattern starts, Pattern ends, String not, boolean last) {
    Matcher start = starts.matcher(text);
    if (!start.find()) {
      return text;
    }
    Ahead end = new Ahead(ends, text);
    StringBuilder out = new StringBuilder();
    int copied = 0;
    for (boolean found = true; found;) {
      int at = end.from(start.end());
      boolean ended = at < text.length() ? not.indexOf(text.charAt(at)) < 0 : last;
      if (ended) {
        out.append(text, copied, start.end()).append('?');
        copied = at;
      }
      found = start.find(ended ? at : start.start() + 1);
    }
    return out.append(text, copied, text.length()).toString();
  }

  /** Leaves out the numbers of plans, with a comma and blanks before. */
  private static String withoutPlanIds(String text) {
    Matcher id = PLAN_ID.matcher(text);
    StringBuilder out = new StringBuilder();
    int copied = 0;
    while (id.find()) {
      int start = PyRegex.beforeBlanks(text, copied, id.start());
      start -= start > copied && text.charAt(start - 1) == ',' ? 1 : 0;
      out.append(text, copied, start);
      copied = id.end();
    }
    return copied == 0 ? text : out.append(text, copied, text.length()).toString();
  }

  /** A node's name without the number of its generated code. */
  private static String withoutNumber(String name) {
    Matcher number = name.endsWith(")") ? CODEGEN.matcher(name) : null;
    return number != null && number.find()
        ? name.substring(0, PyRegex.beforeBlanks(name, 0, number.start())) : name;
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
      // Where no quote ended it, none of the escaped ones on the way starts one that ends.
      at = text.indexOf(quote, Math.abs(end));
    }
    return out == null ? text : out.append(text, copied, text.length()).toString();
  }

  /** Just behind the last quote that may end it; without any, minus where the search stopped. */
  private static int endOfQuoted(String text, int start, char quote, boolean doubled) {
    int end = 0;
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
          break;
        }
        at += 1 + Character.charCount(text.codePointAt(at + 1));
      } else {
        at++;
      }
    }
    return end > 0 ? end : -at;
  }
}
