package org.iqcar.spark.text;

import java.util.regex.Pattern;

/**
 * Regular expressions that match what the analyzer's match: in Python a word or a blank is any
 * of Unicode's, the dot stops at a line feed only, and so does the end of the text.
 */
public final class PyRegex {
  /**
   * With a character beyond the first 65,536, which is no text: only where an expression holds one
   * does Java look behind by characters instead of halves of them.
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
   * %b} for its word boundary, {@code %<} for one before a word and {@code %>} for one after it,
   * which are faster, {@code %.} for its dot and {@code %$} for its end. Inside of a character class
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

  /** The first place from one on where no blank is. */
  public static int behindBlanks(String text, int from) {
    int at = from;
    while (at < text.length() && isBlank(text.charAt(at))) {
      at++;
    }
    return at;
  }

  /** The first place down to a least one with nothing but blanks from there to another. */
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
