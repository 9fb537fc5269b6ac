package org.iqcar.spark.events;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Totals are the sums of the records, whatever texts are in them. */
class RecordTotalsTest {
  private static String record(long scale, String pool) {
    long[] waits = new long[WaitClass.ALL.length];
    long off = 0;
    for (int i = 0; i < waits.length; i++) {
      waits[i] = scale * (i + 1);
      off += waits[i];
    }
    return new TaskRecord().text("host", pool).number("wall_ns", off + 20 * scale)
        .number("cpu_ns", 15 * scale).known("run_queue_ns", 5 * scale, scale != 3)
        .number("off_cpu_ns", off).waits(waits).known("coverage_pct", 50, scale == 2)
        .text("pool", pool).raw("profile", "{\"io_read\":7,\"cpu_ns\":\"9,9\"}").json();
  }

  @Test
  void totalsAreTheSumsOfTheRecords() {
    RecordTotals totals = new RecordTotals();
    totals.add(record(1_000_000_000L, "\"cpu_ns\":7,\"waits_ns\":{\"io_read\":9}"));
    totals.add(record(2, "plain"));
    totals.missed();
    long off = 0;
    for (WaitClass wait : WaitClass.ALL) {
      long share = wait.ordinal() + 1;
      off += share;
      assertEquals(share * 1_000_000_002L, totals.waits[wait.ordinal()].sum());
    }
    assertEquals(2, totals.records.sum());
    assertEquals(1, totals.missing.sum());
    assertEquals(15 * 1_000_000_002L, totals.cpu.sum());
    assertEquals(5 * 1_000_000_002L / 1e9, totals.runQueueSeconds());
    assertEquals(off * 1_000_000_002L, totals.offCpu.sum());
    assertEquals((off + 20) * 1_000_000_002L, totals.wall.sum());
    assertEquals(off * 1_000_000_001L, totals.covered.sum(), 200);
  }

  @Test
  void theRunQueueIsUnknownWhereNoRecordKnowsIt() {
    RecordTotals totals = new RecordTotals();
    assertEquals(0, totals.runQueueSeconds());
    totals.add(record(3, "a"));
    assertTrue(Double.isNaN(totals.runQueueSeconds()));
    totals.add(record(4, "a"));
    assertEquals(20 / 1e9, totals.runQueueSeconds());
  }

  private static String limited(long queued, long ofPython, long stopped) {
    long[] waits = new long[WaitClass.ALL.length];
    waits[WaitClass.PYTHON_RUN_QUEUE.ordinal()] = ofPython;
    return new TaskRecord().number("run_queue_ns", queued).known("throttled_ns", stopped, stopped >= 0)
        .waits(waits).raw("profile", "{\"throttled_ns\":\"9\"}").json();
  }

  @Test
  void stopsByALimitAreCountedOnce() {
    RecordTotals totals = new RecordTotals();
    totals.add(limited(7, 5, -1));
    assertTrue(Double.isNaN(totals.throttledSeconds()));
    long[][] cases = {{10, 4, 3}, {10, 4, 12}, {10, 4, 99}, {0, 0, 99}, {10, 4, 0}};
    for (long[] each : cases) {
      totals.add(limited(each[0], each[1], each[2]));
    }
    assertEquals((3 + 12 + 14) / 1e9, totals.throttledSeconds());
    assertEquals((7 + 7 + 0 + 0 + 10) / 1e9, totals.runQueueSeconds(), 1e-12);
    assertEquals(5 + 4 + 2 + 0 + 4, totals.waits[WaitClass.PYTHON_RUN_QUEUE.ordinal()].sum());
  }

  @Test
  void whatIsNoRecordAddsNoTime() {
    RecordTotals totals = new RecordTotals();
    for (String text : new String[] {"", "n=3", "{\"waits_ns\":{", "{\"cpu_ns\":", "{\"cpu_ns\":-4}",
        "{\"waits_ns\":{\"io_read\":"}) {
      totals.add(text);
    }
    assertEquals(0, totals.cpu.sum());
    assertEquals(0, totals.waits[WaitClass.IO_READ.ordinal()].sum());
    totals.add("{\"cpu_ns\":99999999999999999999999}");
    assertEquals(999_999_999_999_999_999L, totals.cpu.sum());
  }

  @Test
  void manyThreadsAddAtOnce() throws InterruptedException {
    RecordTotals totals = new RecordTotals();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 16; i++) {
      threads.add(new Thread(() -> {
        for (int n = 0; n < 500; n++) {
          totals.add(record(1, "p"));
        }
      }));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(8_000, totals.records.sum());
    assertEquals(15 * 8_000, totals.cpu.sum());
  }
}
