package org.iqcar.spark.text;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;

/** Shapes by which tokens of known services are recognised; the analyzer reads the same file. */
final class TokenShapes {
  private static final String FILE = "/iqcar_secrets.json";

  private TokenShapes() {}

  /** One expression of all shapes, to be put between brackets. */
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
