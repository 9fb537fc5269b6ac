package org.iqcar.spark.stream;

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
}
