package org.iqcar.spark.stream;

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
