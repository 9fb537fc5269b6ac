package org.iqcar.spark.driver.queries;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.iqcar.spark.text.PyRegex;
import org.iqcar.spark.text.Sha256;

/**
 * Hashes a plan without ids, literals, dates and run numbers, to recognise a recurring query.
 *
 * <p>The analyzer computes the same hashes from event logs
 * (analyzer/iqcar/logs/events/operators.py); a test compares the two.
 */
public final class PlanFingerprint {
  /** Most characters of one line of a plan. */
  static final int MAX_LINE = 1_000_000;

  private static final String OPERAND = "[^#()\\[\\],]*";

  /**
   * A pattern and its replacement, for texts that contain {@code held}, which is in every match. A
   * pattern tries each character a few times at most: its repetitions are possessive, or end before
   * the next match can start.
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
    // Starts only at the first digit, and gives back digits one by one.
    new Step("", "(?<![%W$])-?%d+(?:\\.%d+)?(?:[eE][+\\-]?%d+)?(?:BD|[LDSBdf])?(?![%W])", "?"),
    new Step("", "(?<=[\\-=/.])%d++(?=[/\\-.\\]]|%$)", "?"),
    new Step("/", "(?<!%d)(?:(?<=[%W\\-])|(%d))%d++(?=/)", "$1?"),
    // Possessive, so that a long list does not recurse: nothing follows that needs backtracking.
    new Step("?", "\\?(?:%s*+,%s*+\\?)++", "?"),
  };
  private static final Pattern LINES =
      Pattern.compile("\\r\\n|[\\n\\r\\x0b\\x0c\\x1c-\\x1e\\x85\\u2028\\u2029]");

  private PlanFingerprint() {}

  /** A line of a plan without the parts that differ from run to run. */
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

  /** Hashes a plan: depth, name and text of each node, in the order in which Spark prints them. */
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
    return sha256(lines.stream().map(line -> line + "\n").collect(Collectors.joining()));
  }

  /** The first half of a text's SHA-256, in hexadecimal. */
  static String sha256(String text) {
    return Sha256.of(text.getBytes(StandardCharsets.UTF_8));
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

  /** Finds the next match of a pattern, and remembers it for starts before it. */
  private static final class Ahead {
    private final Matcher match;
    private final int length;
    private int at = -1;

    Ahead(Pattern pattern, String text) {
      match = pattern.matcher(text);
      length = text.length();
    }

    /** Position of the first match at or after a start, else the text's length. */
    int from(int start) {
      if (at < start) {
        at = match.find(start) ? match.start() : length;
      }
      return at;
    }
  }

  /** Keeps of a scan's filters only the first column. */
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
   * Replaces the text between a start and the next end by a question mark.
   *
   * @param not first characters of ends that show that the text is no constant
   * @param last whether the end of the whole text is an end
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

  /** Removes the ids of plans, with a comma and blanks before them. */
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

  /** A node's name without the number of its code generation stage. */
  private static String withoutNumber(String name) {
    Matcher number = name.endsWith(")") ? CODEGEN.matcher(name) : null;
    return number != null && number.find()
        ? name.substring(0, PyRegex.beforeBlanks(name, 0, number.start())) : name;
  }

  /**
   * Replaces quoted text by a question mark: {@code '(?:[^'\\]|\\.|'')*'} or {@code
   * "(?:[^"\\]|\\.)*"}, which Java would match by recursion as deep as the text is long.
   *
   * @param doubled whether two quotes in a row stand for a quote inside the text
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
      // Without a closing quote, no escaped quote on the way starts a text that has one.
      at = text.indexOf(quote, Math.abs(end));
    }
    return out == null ? text : out.append(text, copied, text.length()).toString();
  }

  /** The position behind the closing quote; without one, minus where the search stopped. */
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
