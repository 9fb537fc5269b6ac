package org.iqcar.spark.text;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class SecretShapesTest {
  /** Shapes of the list that may pass, as they cannot be told from ordinary text. */
  private static final int MAY_PASS = 1;

  private static JsonNode shapes() throws Exception {
    try (InputStream in = SecretShapesTest.class.getResourceAsStream("/secret_shapes.json")) {
      return new ObjectMapper().readTree(in);
    }
  }

  @Test
  void secretsOfAllKnownShapesAreReplaced() throws Exception {
    String secret = "k" + UUID.randomUUID().toString().replace("-", "").substring(0, 14) + "Z9x";
    List<String> passed = new ArrayList<>();
    for (JsonNode shape : shapes().get("shapes")) {
      String text = Secrets.redact(shape.asText().replace("{X}", secret), 10_000);
      if (text.contains(secret)) {
        passed.add(text);
      }
    }
    assertTrue(passed.size() <= MAY_PASS, passed.toString());
  }

  @Test
  void textsWithoutSecretsStayAsTheyAre() throws Exception {
    for (JsonNode text : shapes().get("harmless")) {
      assertEquals(text.asText(), Secrets.redact(text.asText(), 10_000));
    }
  }

  @Test
  void longTextsMadeToBeTriedInManyWaysEnd() throws Exception {
    for (String part : new String[] {
        "beeline x ", "-p", "<name>password", "{\"name\":\"password\",", "a:1234:", "password: |\n a\n",
        "\"\\", "?key=", "authorization:", "login a ", "pass=", "a b", "\\\"", "-D", "://"}) {
      StringBuilder text = new StringBuilder();
      while (text.length() < 10_000) {
        text.append(part);
      }
      Secrets.redact(text.toString(), 10_000);
    }
  }
}
