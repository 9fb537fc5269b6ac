package org.iqcar.spark.text;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;

/** Reads the patterns of tokens of known services, from the file that the analyzer reads too. */
final class TokenShapes {
  private static final String FILE = "/iqcar_secrets.json";

  private TokenShapes() {}

  /** One regular expression that matches any of the patterns, to be put between brackets. */
  static String read() {
    try (InputStream in = TokenShapes.class.getResourceAsStream(FILE)) {
      List<String> shapes = new ArrayList<>();
      for (JsonNode shape : new ObjectMapper().readTree(in).get("shapes")) {
        shapes.add("(?:" + shape.asText() + ")");
      }
      return String.join("|", shapes);
    } catch (IOException unreadable) {
      throw new IllegalStateException(FILE, unreadable);
    }
  }
}
