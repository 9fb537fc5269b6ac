package org.iqcar.spark.text;

import java.util.regex.Pattern;

/**
 * Regular expressions with the meaning they have in the analyzer's Python: word characters and
 * blanks are Unicode's, and only a line feed stops the dot and precedes the end of the text.
 */
public final class PyRegex {
  /**
   * Word characters, and one character beyond the first 65,536 that no text contains: only an
   * expression with such a character makes Java look behind by code points instead of by halves.
   */
  private static final String WORD = "\\p{L}\\p{N}_\udbff\udfff";
  private static final String BLANK = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a"
      + "\\u2028\\u2029\\u202f\\u205f\\u3000";
  private static final String BLANKS_BEYOND = "\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004"
      + "\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";
  private static final Pattern BLANKS = Pattern.compile("[" + BLANK + "]++");

  private PyRegex() {}

  /**
   * Compiles an expression in which {@code %w %s %d} stand for Python's {@code \w \s \d}, {@code
   * %b} for its word boundary, {@code %<} and {@code %>} for a boundary before and after a word,
   * which are faster, {@code %.} for its dot and {@code %$} for its end. Inside a character class
   * write {@code %W} and {@code %S}.
   */
  public static Pattern compile(String text) {
    return Pattern.compile(text
        .replace("%W", WORD)
        .replace("%S", BLANK)
        .replace("%w", "[" + WORD + "]")
        .replace("%s", "[" + BLANK + "]")
        .replace("%d", "\\p{Nd}")
        .replace("%b", "(?:(?<=[" + WORD + "])(?![" + WORD + "])|(?<![" + WORD + "])(?=["
            + WORD + "]))")
        .replace("%<", "(?<![" + WORD + "])")
        .replace("%>", "(?![" + WORD + "])")
        .replace("%.", "[^\\n]")
        .replace("%$", "(?=\\n?\\z)"));
  }

  /** Whether Python's {@code \\s} matches. */
  static boolean isBlank(char letter) {
    return letter <= ' ' ? letter >= '\t' && letter <= '\r' || letter >= '\u001c'
        : letter >= '\u0085' && BLANKS_BEYOND.indexOf(letter) >= 0;
  }

  /** The first position at or after {@code from} that holds no blank. */
  public static int behindBlanks(String text, int from) {
    int at = from;
    while (at < text.length() && isBlank(text.charAt(at))) {
      at++;
    }
    return at;
  }

  /** The lowest position, not below {@code least}, with only blanks from it to {@code from}. */
  public static int beforeBlanks(String text, int least, int from) {
    int at = from;
    while (at > least && isBlank(text.charAt(at - 1))) {
      at--;
    }
    return at;
  }

  /** Python's {@code text.strip()}. */
  static String strip(String text) {
    int start = behindBlanks(text, 0);
    return text.substring(start, beforeBlanks(text, start, text.length()));
  }

  /** Python's {@code " ".join(text.split())}. */
  public static String oneBlank(String text) {
    return strip(BLANKS.matcher(text).replaceAll(" "));
  }

  /** Python's {@code len(text)}. */
  public static int length(String text) {
    return text.codePointCount(0, text.length());
  }
}
