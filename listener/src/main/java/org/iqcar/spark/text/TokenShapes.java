package org.iqcar.spark.text;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Reads shapes of tokens of known services, names of secrets and words that are none, places in which
 * secrets stand, and letters that look alike, from the file that the analyzer reads too.
 */
public final class TokenShapes {
  private static final JsonNode DATA = data("/iqcar_secrets.json");

  private TokenShapes() {}

  /** One regular expression that matches any of a list, to be put between brackets. */
  static String anyOf(String list) {
    List<String> shapes = new ArrayList<>();
    for (JsonNode shape : DATA.get(list)) {
      shapes.add("(?:" + shape.asText() + ")");
    }
    return String.join("|", shapes);
  }

  /** A text of the file. */
  static String text(String name) {
    return DATA.get(name).asText();
  }

  /** Expressions of places in which the first group is a secret; without it a match is none. */
  static Pattern[] places() {
    List<Pattern> places = new ArrayList<>();
    for (JsonNode place : DATA.get("contexts")) {
      String named = place.asText().replace("%N", text("names")).replace("%C", text("wide_names"));
      places.add(PyRegex.compile(named.replace("(?i:", "(?iu:")));
    }
    return places.toArray(new Pattern[0]);
  }

  /**
   * An expression of letters in which each may be one that looks like it; between them may be what
   * nobody sees.
   */
  static String lookAlike(String pattern) {
    JsonNode alike = DATA.get("lookalikes");
    StringBuilder found = new StringBuilder();
    for (char letter : pattern.toCharArray()) {
      JsonNode others = alike.get(String.valueOf(letter));
      if (others == null) {
        found.append(letter);
      } else {
        found.append('[').append(letter).append(others.asText()).append(']');
        found.append('[').append(text("invisible")).append("]{0,4}+");
      }
    }
    return found.toString();
  }

  /** Reads a file of data that the analyzer reads too. */
  public static JsonNode data(String file) {
    try (InputStream in = TokenShapes.class.getResourceAsStream(file)) {
      return new ObjectMapper().readTree(in);
    } catch (IOException unreadable) {
      throw new IllegalStateException(file, unreadable);
    }
  }
}
