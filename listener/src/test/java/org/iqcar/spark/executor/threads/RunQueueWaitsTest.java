package org.iqcar.spark.executor.threads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RunQueueWaitsTest {
  private static final long A_DAY_NANOS = 86_400_000_000_000L;

  @TempDir Path proc;

  @Test
  void aWaitIsAsLongAsTheKernelSays() {
    RunQueueWaits waits = new RunQueueWaits(70, 1000);
    assertEquals(70, waits.total(70, true, 1100, 1101));
    assertEquals(70, waits.total(70, true, 1200, 1201));
    assertEquals(330, waits.total(330, false, 1290, 1291));
    assertEquals(340, waits.total(340, false, 1400, 1401));
  }

  @Test
  void aThreadThatWasSeenAsleepWaitedSinceThenAtMost() {
    RunQueueWaits waits = new RunQueueWaits(70, 1000);
    assertEquals(70, waits.total(70, false, 1500, 1510));
    assertEquals(70 + 110, waits.total(70 + 600, false, 1600, 1610));
    // What follows is counted from the kernel's own total.
    assertEquals(70 + 110 + 5, waits.total(70 + 600 + 5, false, 1700, 1710));
  }

  @Test
  void anOlderReadingThatComesLaterChangesNothing() {
    RunQueueWaits waits = new RunQueueWaits(0, 0);
    assertEquals(50, waits.total(50, false, 100, 110));
    assertEquals(50, waits.total(40, false, 90, 95));
    assertEquals(60, waits.total(60, false, 110, 120));
  }

  @Test
  void ofASleepThatTheKernelCountsTheRecordHoldsTheTimeSinceTheLastLook() throws Exception {
    Path folder = Files.createDirectories(proc.resolve("1/task/2"));
    Files.createSymbolicLink(proc.resolve("thread-self"), proc.relativize(folder));
    write(folder.resolve("stat"), "2 (Executor task) S 1 1");
    write(folder.resolve("schedstat"), "5 10 1");
    KernelThread thread = KernelThread.begin(proc.toString());
    try {
      long start = thread.ownRunQueueNanos();
      // What was before the last look must not count: let it be longer than what comes after it.
      Thread.sleep(200);
      long before = System.nanoTime();
      assertEquals('S', thread.look());
      write(folder.resolve("schedstat"), "6 " + A_DAY_NANOS + " 2");
      long waited = thread.ownRunQueueNanos() - start;
      long passed = System.nanoTime() - before;
      assertTrue(waited > 0 && waited <= passed, waited + " of " + passed);
      thread.look();
      assertEquals(waited, thread.seenRunQueueNanos() - start);
    } finally {
      thread.busy = false;
      KernelThread.closeIdle();
    }
  }

  private static void write(Path file, String text) throws IOException {
    Files.write(file, text.getBytes(StandardCharsets.US_ASCII));
  }
}
