package org.iqcar.spark.driver.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class PropertySecretsTest {
  private static final PropertySecrets SECRETS =
      new PropertySecrets(Pattern.compile("(?i)secret|password|token|access[.]?key"));

  @Test
  void secretsOfPropertiesAreNotStreamedAndAllElseIs() throws Exception {
    String line = "{'Event':'SparkListenerEnvironmentUpdate','Spark Properties':{"
        + "'spark.app.name':'a job','spark.hadoop.fs.s3a.access.key':'AKIA123','spark.my.pwd':'hunter2',"
        + "'spark.iqcar.live.token':'abcdefghijklmnop','spark.url':'jdbc:x://me:hunter2@db/x'},"
        + "'Job ID':3}";
    String out = SECRETS.redacted(line.replace('\'', '"'));
    JsonNode event = new ObjectMapper().readTree(out);
    assertEquals("a job", event.get("Spark Properties").get("spark.app.name").asText());
    assertEquals(3, event.get("Job ID").asInt());
    for (String secret : new String[] {"AKIA123", "hunter2", "abcdefghijklmnop"}) {
      assertFalse(out.contains(secret), out);
    }
  }

  @Test
  void secretsInAnyTextAreNotStreamedHoweverDeepItNests() throws Exception {
    StringBuilder deep = new StringBuilder("{\"Event\":\"x\",\"description\":\"CREATE USER a");
    deep.append(" IDENTIFIED BY 'hunter2'\",\"password\":{\"n\":1},\"plan\":");
    for (int i = 0; i < 5_000; i++) {
      deep.append("{\"text\":\"Scan \\\"a\\\" id\",\"children\":[");
    }
    deep.append("\"option(\\\"password\\\", \\\"hunter2\\\")\"");
    for (int i = 0; i < 5_000; i++) {
      deep.append("]}");
    }
    String line = deep.append("}").toString();
    String out = PropertySecrets.redactTexts(line);
    assertFalse(out.contains("hunter2"), out);
    assertEquals(line.replaceAll("IDENTIFIED BY 'hunter2'", "IDENTIFIED BY *(redacted)")
        .replace("\\\"hunter2\\\"", "*(redacted)"), out);
  }

  @Test
  void aLineThatIsCutOffEnds() throws Exception {
    for (String line : new String[] {"\"", "{\"a", "{\"a\\", "{\"a\":\"b\\\"", ""}) {
      try {
        PropertySecrets.redactTexts(line);
      } catch (java.io.IOException damaged) {
        continue;
      }
    }
  }
}
