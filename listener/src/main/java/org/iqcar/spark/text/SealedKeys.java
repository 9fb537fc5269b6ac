package org.iqcar.spark.text;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Removes keys from calls that encrypt or decrypt, such as {@code aes_encrypt(text, 'key')}, as the
 * analyzer does (analyzer/iqcar/logs/text.py).
 */
final class SealedKeys {
  private static final Pattern PIECE =
      Pattern.compile("(?iu:(?:aes|pgp_sym)_(?:en|de)crypt)[ \\t]*+\\(|['\"(),]");
  /** Count of commas in a bracket that opens no such call: it never reaches 1. */
  private static final int NO_CALL = Integer.MIN_VALUE;

  private SealedKeys() {}

  /** The text without the quoted text in the second argument of such calls, nested ones too. */
  static String without(String text) {
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
        end = Secrets.endOfQuoted(text, piece.start());
        if (inside > 0) {
          out.append(text, copied, piece.start()).append(Secrets.MARK);
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
}
