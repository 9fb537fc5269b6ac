package org.iqcar.spark.events;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collections;
import org.junit.jupiter.api.Test;

/** A record is JSON, whatever the names in it. */
class TaskRecordTest {
  @Test
  void aRecordIsJsonWhateverAPoolIsCalled() throws Exception {
    String pool = "a \"b\" \\ \u0001 \u00e9 \n";
    JsonNode node = new ObjectMapper()
        .readTree(new TaskRecord().text("pool", pool).text("host", null).json());
    assertEquals(pool, node.get("pool").asText());
    assertFalse(node.has("host"));
    assertEquals(TaskRecord.VERSION, node.get("v").asInt());
  }

  @Test
  void classesThatOlderRecordsLackAreWrittenWithTheirZeros() {
    assertEquals("{\"v\":1,\"waits_ns\":{\"object_store\":0,\"page_fault\":0}}",
        new TaskRecord().waits(new long[WaitClass.ALL.length]).json());
  }

  @Test
  void aPoolsNameIsCutAndHalfALetterIsNone() {
    String name = String.join("", Collections.nCopies(2_000, "x"));
    assertTrue(new TaskRecord().text("pool", name).json().length() < 1_100);
    assertEquals("{\"v\":1,\"pool\":\"a?b\\u0000\uD83D\uDE00\"}",
        new TaskRecord().text("pool", "a\uD83Db\0\uD83D\uDE00").json());
  }
}
