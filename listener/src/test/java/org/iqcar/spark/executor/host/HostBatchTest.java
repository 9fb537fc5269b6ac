package org.iqcar.spark.executor.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import org.junit.jupiter.api.Test;

/** A batch is bounded and counts what it leaves out. */
class HostBatchTest {
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
}
