package org.iqcar.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Collections;
import org.junit.jupiter.api.Test;

/** Batches are bounded, and their event can be written and read by Spark. */
class HostSamplesTest {
  private static final String LINE = "{\"v\":1,\"t\":5}";

  @Test
  void aFullBatchDropsAndCounts() {
    HostBatch batch = new HostBatch();
    int fit = 0;
    while (!batch.full()) {
      batch.add(LINE);
      fit++;
    }
    batch.add(LINE);
    batch.add(LINE);
    String taken = batch.take();
    assertTrue(taken.length() <= HostBatch.MOST_CHARS);
    assertTrue(taken.length() > HostBatch.MOST_CHARS - 2 * LINE.length() - 2);
    assertEquals(fit, taken.split("},").length);
    assertEquals(2, batch.takeDropped());
    assertEquals(0, batch.takeDropped());
    assertFalse(batch.full());
    batch.add(LINE);
    assertEquals(LINE, batch.take());
  }

  @Test
  void aLineLongerThanABatchIsDroppedAndTheNextIsNot() {
    HostBatch batch = new HostBatch();
    batch.add(String.join("", Collections.nCopies(HostBatch.MOST_CHARS, "x")));
    assertEquals("", batch.take());
    batch.add(LINE);
    assertEquals(LINE, batch.take());
    assertEquals(1, batch.takeDropped());
  }

  @Test
  void theEventHoldsTheSamplesAsJson() throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    IqcarEventSamples event =
        new IqcarEventSamples(new String[] {"h", "3", "2", LINE + "," + LINE});
    JsonNode written = mapper.readTree(mapper.writeValueAsString(event));
    assertEquals(2, written.get("samples").size());
    assertEquals(5, written.get("samples").get(1).get("t").asInt());
    assertEquals(2, written.get("dropped").asInt());
    String newer = "{\"Event\":\"org.iqcar.spark.IqcarEventSamples\",\"host\":\"h\","
        + "\"executor\":\"3\",\"samples\":[{\"v\":9}],\"more\":[1]}";
    assertEquals("h", mapper.readValue(newer, IqcarEventSamples.class).getHost());
  }

  @Test
  void ofTasksOnlyThoseThatOutliveAPeriodAreWatched() {
    KernelThread thread = KernelThread.current("/proc");
    if (thread == null) {
      return;
    }
    HostWatch.begin("77", "ex 1");
    HostWatch.start(thread, 1);
    HostWatch.end(thread, 1);
    HostWatch.start(thread, 2);
    HostWatch.python(88);
    HostWatch.python(88);
    assertEquals("watch 77 ex_1 jvm\ntask " + thread.tid + " 77 2\nwatch 88 ex_1 python\n",
        HostWatch.orders());
    HostWatch.end(thread, 2);
    assertEquals("end " + thread.tid + "\n", HostWatch.orders());
    HostWatch.end();
    HostWatch.start(thread, 3);
    assertEquals("", HostWatch.orders());
  }
}
