package org.iqcar.spark.driver.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.util.Iterator;
import java.util.Map;
import java.util.regex.Pattern;
import org.iqcar.spark.text.Secrets;

/** Removes secrets from the properties in an event's line, as Spark does before it logs them. */
final class PropertySecrets {
  private static final String MARK = "*********(redacted)";
  private static final ObjectMapper JSON = new ObjectMapper();
  /** Characters, quotes included, up to which a text can hold no secret. */
  private static final int LEAST_TEXT = 9;

  private final Pattern secret;

  /**
   * Finds secrets by a pattern.
   *
   * @param secret what marks the key or value of a property as secret: {@code spark.redaction.regex}
   */
  PropertySecrets(Pattern secret) {
    this.secret = secret;
  }

  /** The same line without the secrets among its properties. */
  String redacted(String line) throws IOException {
    JsonNode event = JSON.readTree(line);
    for (JsonNode group : event) {
      if (group.isObject()) {
        redact((ObjectNode) group);
      }
    }
    return JSON.writeValueAsString(event);
  }

  /**
   * The same line without secrets in any text, whatever it nests: descriptions, statements, plans,
   * messages of errors. Names of fields stay.
   */
  static String redactTexts(String line) throws IOException {
    StringBuilder out = new StringBuilder(line.length());
    int done = 0;
    for (int start = line.indexOf('"'); start >= 0; start = line.indexOf('"', start)) {
      int end = endOfText(line, start);
      boolean name = end < line.length() && line.charAt(end) == ':';
      if (!name && end - start > LEAST_TEXT) {
        String text = JSON.readValue(line.substring(start, end), String.class);
        String kept = textRedacted(text);
        if (!kept.equals(text)) {
          out.append(line, done, start).append(JSON.writeValueAsString(kept));
          done = end;
        }
      }
      start = end;
    }
    return done == 0 ? line : out.append(line, done, line.length()).toString();
  }

  private static String textRedacted(String text) {
    if (text.length() <= Secrets.MAX_TEXT) {
      return Secrets.redact(text, Secrets.MAX_TEXT);
    }
    StringBuilder kept = new StringBuilder();
    for (String one : text.split("\n", -1)) {
      kept.append(kept.length() == 0 ? "" : "\n").append(Secrets.redact(one, Secrets.MAX_TEXT));
    }
    return kept.toString();
  }

  /** The position behind a text's closing quote. */
  private static int endOfText(String line, int start) {
    int at = start + 1;
    while (at < line.length() && line.charAt(at) != '"') {
      at += line.charAt(at) == '\\' ? 2 : 1;
    }
    return Math.min(at + 1, line.length());
  }

  private void redact(ObjectNode properties) {
    for (Iterator<Map.Entry<String, JsonNode>> all = properties.fields(); all.hasNext();) {
      Map.Entry<String, JsonNode> one = all.next();
      if (one.getValue().isTextual()) {
        one.setValue(TextNode.valueOf(value(one.getKey(), one.getValue().textValue())));
      }
    }
  }

  private String value(String key, String value) {
    if (secret.matcher(key).find() || secret.matcher(value).find()) {
      return MARK;
    }
    String start = key + "=";
    String kept = Secrets.redact(start + value, Secrets.MAX_TEXT);
    return kept.startsWith(start) ? kept.substring(start.length()) : MARK;
  }
}
