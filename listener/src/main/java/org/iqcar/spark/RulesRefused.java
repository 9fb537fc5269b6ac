package org.iqcar.spark;

/** Rules that cannot be applied; the message says what is wrong, where, and what to do. */
final class RulesRefused extends RuntimeException {
  private static final long serialVersionUID = 1L;

  RulesRefused(String where, String what, String toDo) {
    super(String.format("iqcar: no rules are applied: %s: %s; %s",
        printable(where), printable(what), toDo));
  }

  /** Text of others on one line of bounded length. */
  static String printable(String text) {
    String line = text.replaceAll("\\p{C}", "?");
    return line.length() <= 300 ? line : line.substring(0, 299) + "…";
  }
}
