package org.iqcar.spark.text;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Removes secrets from descriptions as the analyzer does
 * (analyzer/iqcar/logs/text.py), so that rules, which hold redacted names, match.
 *
 * <p>The analyzer's regular expressions run in linear time; Java's backtrack. So each repetition
 * here is possessive, bounded, or ends before the next match can start, and a match whose closing
 * sign may be missing consumes the text up to where it would be. Texts are also short.
 */
public final class Secrets {
  /** Most characters of a description. */
  public static final int MAX_TEXT = 10_000;
  /** Most characters of a name. */
  public static final int MAX_NAME = 500;

  /** Stands in place of a secret. */
  private static final String MARK = "*(redacted)";
  private static final String KEY = "(?iu:" + TokenShapes.text("names") + ")";
  private static final String NAME = KEY + "[%W.\\-]*+";
  private static final String ARGUMENT = "(?=[^%S|;])";

  private static final Pattern PRIVATE_KEY = PyRegex.compile(
      "(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?"
          + "(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----|\\z)");
  private static final Pattern IN_URL = PyRegex.compile(
      "://[^%S/@:'\"]*+:[^%S@'\"]*+(@(?:[^%S'\"/?#,;]*@)?+)?+");
  private static final Pattern AUTHORIZATION = PyRegex.compile("(%<(?iu:bearer|basic|negotiate"
      + "|apikey|authorization[\"']?[ \\t]?[:=][ \\t]?[\"']?token)%s++)([%W\\-.~+/]{8,}+=*+)");
  private static final Pattern COOKIE =
      PyRegex.compile("((?iu:%<cookie:)%s*+)[%W.\\-]++=[^\\n'\"]++");
  private static final Pattern NAMED = PyRegex.compile(NAME);
  private static final Pattern LISTED =
      PyRegex.compile(NAME + "[\"'`]?+(?:((?:%s*+,%s*+|%s++)(?=[\"'])))?+");
  private static final Pattern TOLD =
      PyRegex.compile(NAME + "[\"'`]?+(%s++(?iu:is|was)(?:%s*+:%s++|%s++))?+");
  private static final Pattern IDENTIFIED = PyRegex.compile("(?iu:identified%s++by)(%s++)");
  private static final Pattern OPTION = PyRegex.compile("((?<![%W\\-])-(?=[%W\\-]*?"
      + KEY.replace("[._\\- ]?", "[_\\-]?") + ")[%W\\-]++%s++)[^%S\\-=][^%S]*+");
  private static final Pattern MYSQL = PyRegex.compile("%<(?:mysql|mariadb)[a-z_\\-]{0,20}+[ \\t]"
      + "(?:(?:[^\\n|;]*?[ \\t])?(-p)" + ARGUMENT + "|[^\\n|;]*+)");
  private static final Pattern SSHPASS =
      PyRegex.compile("%<sshpass%s++(-p)%s*+" + ARGUMENT);
  private static final Pattern CURL = PyRegex.compile("%<(?:curl|wget)[ \\t](?:(?:[^\\n|;]*?[ \\t])?"
      + "(?:-u|--user)[%S=]?[\"']?[^%S:'\"|;]*+:([^%S'\"|;]++)|[^\\n|;]*+)");
  private static final Pattern[] KNOWN = {
    PyRegex.compile("((?iu:jdbc:oracle:[a-z0-9]{1,10}:)[A-Za-z0-9_$#]{0,64}/)"
        + "[^%S@'\"]{1,128}(?=@)"),
    PyRegex.compile("((?:^|[%S'\"=(,])[A-Za-z0-9_$#]{1,30}/)[^%S@/'\"]{1,64}"
        + "(?=@(?://|[A-Za-z0-9.\\-]{1,100}:[0-9]{2,5}[/:]))"),
    PyRegex.compile("(%<(?iu:sqlplus|sqlldr|expdp|impdp|rman|connect|conn)(?:%s[^%S]{1,30}){0,3}?"
        + "%s[A-Za-z0-9_$#]{1,30}/)[^%S@/'\"]{1,64}(?=@)"),
    PyRegex.compile("((?:^|[%S'\"=(,])[A-Za-z0-9_.\\-]{1,64}:)"
        + "[^%S@/'\",;:]{1,64}@[^%S@/'\",;:]{1,64}(?=@[A-Za-z0-9])"),
    PyRegex.compile("((?iu:[?&](?:sig|signature|x-(?:amz|goog)-[A-Za-z0-9\\-]{1,40}|se|sp)=))"
        + "[^&%S'\"]++"),
    PyRegex.compile("()(?<![A-Za-z0-9])(?:" + TokenShapes.anyOf("shapes") + ")"),
    PyRegex.compile("()(?<![%W+/])[A-Za-z0-9+/]{86}=="),
    PyRegex.compile("()(?<![%W+/=.\\-])(?=[a-z0-9+/]{0,40}[A-Z])(?=[A-Z0-9+/]{0,40}[a-z])"
        + "(?=[A-Za-z+/]{0,40}[0-9])[A-Za-z0-9+/]{40}(?![%W+/=.\\-])"),
  };
  private static final Pattern[] PLACES = TokenShapes.places();
  private static final Pattern LOOK_ALIKE = PyRegex.compile(
      "(?iu:" + TokenShapes.lookAlike(TokenShapes.text("lookalike_names")) + ")[%W.\\-"
          + TokenShapes.text("invisible") + "]*+");
  private static final Pattern PLAIN_WORD = Pattern.compile("[A-Za-z][a-z]++");
  private static final Pattern PROSE =
      Pattern.compile("(?i)(?:" + TokenShapes.anyOf("harmless") + ")[.!?]*+");
  /** Longest part of a name of several words before its last blank: {@code shared access}. */
  private static final int WORDS_BEFORE = 13;
  /** Signs between a name and its value, in the order in which they are tried. */
  private static final String[] BETWEEN = {"=>", "->", "===", "==", "=", ":=", "::", ":", "＝", "："};

  /** A call that encrypts or decrypts, and what divides its arguments. */
  private static final Pattern PIECE =
      Pattern.compile("(?iu:(?:aes|pgp_sym)_(?:en|de)crypt)[ \\t]*+\\(|['\"(),]");
  /** Count of commas in a bracket that opens no such call: it never reaches 1. */
  private static final int NO_CALL = Integer.MIN_VALUE;

  private Secrets() {}

  /** The text without its secrets, cut to {@code limit} characters; null becomes empty. */
  public static String redact(String text, int limit) {
    if (text == null || text.isEmpty()) {
      return "";
    }
    String kept = text;
    if (PyRegex.length(text) > limit) {
      kept = text.substring(0, text.offsetByCodePoints(0, limit - 1)) + "…";
    }
    if (!isAscii(kept)) {
      kept = withoutValues(kept, LOOK_ALIKE, WORDS_BEFORE, Secrets::assigned);
    }
    for (Pattern place : PLACES) {
      kept = withoutValues(kept, place,
          (at, m) -> m.start(1) < 0 ? null : new int[] {m.start(1), m.end(1)});
    }
    kept = PRIVATE_KEY.matcher(kept).replaceAll(Matcher.quoteReplacement(MARK));
    kept = replaced(kept, IN_URL, m -> m.group(1) == null ? m.group() : "://" + MARK + "@");
    kept = replaced(kept, AUTHORIZATION, m ->
        PLAIN_WORD.matcher(m.group(2)).matches() ? m.group() : m.group(1) + MARK);
    kept = replaced(kept, COOKIE, m -> m.group(1) + MARK);
    kept = withoutValues(kept, NAMED, WORDS_BEFORE, Secrets::assigned);
    kept = withoutValues(kept, LISTED, WORDS_BEFORE,
        (at, m) -> m.group(1) == null ? null : listed(at, m.end()));
    kept = withoutValues(kept, TOLD, WORDS_BEFORE,
        (at, m) -> m.group(1) == null ? null : told(at, m.end()));
    kept = withoutValues(kept, IDENTIFIED, (at, m) -> value(at, m.end()));
    kept = replaced(kept, OPTION, m -> m.group(1) + MARK);
    kept = withoutValues(kept, MYSQL,
        (at, m) -> m.group(1) == null ? null : argument(at, m.end()));
    kept = withoutValues(kept, SSHPASS, (at, m) -> argument(at, m.end()));
    kept = withoutValues(kept, CURL,
        (at, m) -> m.group(1) == null ? null : new int[] {m.start(1), m.end(1)});
    for (Pattern known : KNOWN) {
      kept = replaced(kept, known, m -> m.group(1) + MARK);
    }
    return withoutSealedKeys(kept);
  }

  /**
   * The text without the quoted text in the second argument of calls that encrypt or decrypt, such as
   * {@code aes_encrypt(text, 'key')}, nested ones too.
   */
  private static String withoutSealedKeys(String text) {
    StringBuilder out = new StringBuilder();
    int copied = 0;
    Deque<Integer> commas = new ArrayDeque<>();
    int inside = 0;
    Matcher piece = PIECE.matcher(text);
    for (boolean found = piece.find(); found;) {
      int end = piece.end();
      char last = text.charAt(end - 1);
      if (last == '(') {
        commas.push(end - piece.start() > 1 ? 0 : NO_CALL);
      } else if (last == '\'' || last == '"') {
        end = endOfQuoted(text, piece.start());
        if (inside > 0) {
          out.append(text, copied, piece.start()).append(MARK);
          copied = end;
        }
      } else if (!commas.isEmpty()) {
        int before = commas.pop();
        inside -= before == 1 ? 1 : 0;
        if (last == ',') {
          commas.push(before + 1);
          inside += before == 0 ? 1 : 0;
        }
      }
      found = piece.find(end);
    }
    return copied == 0 ? text : out.append(text, copied, text.length()).toString();
  }

  /** Finds the start and end of the value that belongs to a match; null without a value. */
  private interface Value {
    int[] of(String text, Matcher match);
  }

  private static String replaced(String text, Pattern pattern, Function<Matcher, String> instead) {
    Matcher match = pattern.matcher(text);
    StringBuffer out = null;
    while (match.find()) {
      out = out == null ? new StringBuffer() : out;
      match.appendReplacement(out, Matcher.quoteReplacement(instead.apply(match)));
    }
    return out == null ? text : match.appendTail(out).toString();
  }

  private static String withoutValues(String text, Pattern pattern, Value value) {
    return withoutValues(text, pattern, 0, value);
  }

  /**
   * Replaces the value of each match and continues the search behind it; behind a match without
   * one, so many characters before its end, where a name that goes on may begin in another one.
   */
  private static String withoutValues(String text, Pattern pattern, int back, Value value) {
    Matcher match = pattern.matcher(text);
    StringBuilder out = new StringBuilder();
    int copied = 0;
    for (boolean found = match.find(); found;) {
      int[] span = value.of(text, match);
      int next = Math.max(match.start() + 1, match.end() - back);
      if (span != null) {
        next = span[1];
        if (span.length == 2) {
          out.append(text, copied, span[0]).append(MARK);
          copied = next;
        }
      }
      found = match.find(next);
    }
    return copied == 0 ? text : out.append(text, copied, text.length()).toString();
  }

  /** The span of the value behind a name and a sign. */
  private static int[] assigned(String text, Matcher name) {
    int end = name.end();
    if (text.startsWith(">", end) && text.charAt(end - 1) == '-') {
      return value(text, PyRegex.behindBlanks(text, end + 1));
    }
    if (end < text.length() && "\"'`".indexOf(text.charAt(end)) >= 0) {
      end++;
    }
    end = PyRegex.behindBlanks(text, end);
    for (String sign : BETWEEN) {
      int[] span = text.startsWith(sign, end)
          ? value(text, PyRegex.behindBlanks(text, end + sign.length())) : null;
      if (span != null) {
        return span;
      }
    }
    return null;
  }

  /** The span of a value in a sentence; a third number marks an ordinary word, not a secret. */
  private static int[] told(String text, int at) {
    int[] span = value(text, at);
    boolean word = span != null && PROSE.matcher(text.substring(at, span[1])).matches();
    return word ? new int[] {at, span[1], 0} : span;
  }

  /** The span of quoted text; a third number marks the word that stands before the value. */
  private static int[] listed(String text, int at) {
    int[] span = value(text, at);
    boolean word = span != null
        && text.substring(span[0], span[1]).replaceAll("[\"']", "").equalsIgnoreCase("value");
    return word ? new int[] {at, span[1], 0} : span;
  }

  private static boolean isAscii(String text) {
    return text.chars().allMatch(letter -> letter < 128);
  }

  private static int[] value(String text, int at) {
    if (text.startsWith(MARK, at)) {
      return new int[] {at, at + MARK.length()};
    }
    return span(text, at, ",;&)]}\"'");
  }

  private static int[] argument(String text, int at) {
    return span(text, at, "|;");
  }

  /** The span of quoted text at a position, else of text up to a blank or one of {@code ends}. */
  private static int[] span(String text, int at, String ends) {
    if (at < text.length() && (text.charAt(at) == '\'' || text.charAt(at) == '"')) {
      return new int[] {at, endOfQuoted(text, at)};
    }
    int end = at;
    while (end < text.length() && !PyRegex.isBlank(text.charAt(end))
        && ends.indexOf(text.charAt(end)) < 0) {
      end++;
    }
    return end == at ? null : new int[] {at, end};
  }

  /** The position behind the closing quote, or the text's end where the quote is missing. */
  private static int endOfQuoted(String text, int start) {
    char quote = text.charAt(start);
    int at = start + 1;
    while (at < text.length()) {
      char letter = text.charAt(at);
      at++;
      if (letter == '\\') {
        at++;
      } else if (letter == quote) {
        if (quote == '"' || at == text.length() || text.charAt(at) != quote) {
          return at;
        }
        at++;
      }
    }
    return text.length();
  }
}
