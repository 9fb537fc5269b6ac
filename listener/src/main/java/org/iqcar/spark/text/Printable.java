package org.iqcar.spark.text;

/** Makes other people's text fit for a log message. */
public final class Printable {
  private static final int MOST_CHARS = 300;

  private Printable() {}

  /** The text on one line of at most 300 characters, with ? for control characters. */
  public static String line(String text) {
    String line = text.replaceAll("\\p{C}", "?");
    return line.length() <= MOST_CHARS ? line : line.substring(0, MOST_CHARS - 1) + "…";
  }
}
