package org.iqcar.spark;

import java.util.regex.Pattern;

/**
 * Takes secrets out of descriptions as the analyzer does (analyzer/iqcar/eventlog/redact.py): a
 * name that held one is compared without it, so rules never need to hold it.
 */
final class Secrets {
  /** Characters kept of a description. */
  static final int MAX_TEXT = 10_000;
  /** Characters kept of a name. */
  static final int MAX_NAME = 500;

  private static final String MARK = "*(redacted)";
  private static final String KEY =
      "(?:secret|pass(?:word|wd|phrase)|pwd|token|access[._\\- ]?key|account[._\\- ]?key"
          + "|api[._\\- ]?key|private[._\\- ]?key|credential|client[._\\- ]?key|auth[._\\- ]?key"
          + "|sas[._\\- ]?key"
          + "|fs\\.azure\\.account\\.key|shared[._\\- ]?access[._\\- ]?signature)";

  private static final Pattern[] PATTERNS = {
    PyRegex.compile("(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?"
        + "(?:-----END [A-Z ]*PRIVATE KEY-----|\\z)"),
    PyRegex.compile("(?<=://)[^%S/@:'\"]*:[^%S@'\"]*(?=@)"),
    PyRegex.compile("(?iu)%b(bearer|basic)%s+[%W\\-.~+/]{8,}=*"),
    PyRegex.compile("(?iu)([%W.\\-]*" + KEY + "[%W.\\-]*[\"'`]?%s*"
        + "(?:=>|->|=|:|,(?=%s*[\"']))%s*)"
        + "(?:\"(?:[^\"\\\\]|\\\\%.)*+\"|'(?:[^'\\\\]++|\\\\%.|'')*'|[^%S,;&)\\]}\"']+)"),
    PyRegex.compile("(?iu)(%b(?:identified%s+by|" + KEY + ")%s+)(?:'[^']*'|\"[^\"]*\")"),
    PyRegex.compile("(?iu)(--?[%W\\-]*" + KEY + "[%W\\-]*%s+)(?![-=])[^%S]+"),
    PyRegex.compile("(?iu)([?&](?:sig|signature|x-amz-[%W\\-]+|se|sp)=)[^&%S'\"]+"),
    PyRegex.compile("%b(?:(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}|gh[pousr]_%w{30,}|dapi[0-9a-f]{32}"
        + "|AIza[%W\\-]{35}|xox[abprs]-[%W\\-]{10,}|eyJ[%W\\-]{8,}\\.[%W\\-]{8,}\\.[%W\\-]*)"),
    PyRegex.compile("(?<![%W+/])[A-Za-z0-9+/]{86}=="),
    PyRegex.compile("(?<![%W+/=.\\-])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])"
        + "(?=[A-Za-z0-9+/]*%d)[A-Za-z0-9+/]{40}(?![%W+/=.\\-])"),
  };
  private static final String[] INSTEAD = {
    MARK, MARK, "$1 " + MARK, "$1" + MARK, "$1" + MARK, "$1" + MARK, "$1" + MARK, MARK, MARK, MARK
  };
  private static final Pattern HINT = PyRegex.compile("(?iu)" + KEY
      + "|://[^%S/]*@|bearer|basic|identified|sig|x-amz|BEGIN|[A-Za-z0-9+/_\\-]{20}");

  private Secrets() {}

  /** A text without its secrets, cut to a length; null is empty. */
  static String redact(String text, int limit) {
    if (text == null || text.isEmpty()) {
      return "";
    }
    String kept = text;
    if (PyRegex.length(text) > limit) {
      kept = text.substring(0, text.offsetByCodePoints(0, limit - 1)) + "…";
    }
    if (HINT.matcher(kept).find()) {
      for (int i = 0; i < PATTERNS.length; i++) {
        kept = PATTERNS[i].matcher(kept).replaceAll(INSTEAD[i]);
      }
    }
    return kept;
  }
}
