package org.iqcar.spark.python;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WorkerProcessTest {
  private static final long SECOND_NANOS = 1_000_000_000L;

  @TempDir Path proc;

  private void counters(char state, long cpuNanos, long runQueueNanos) throws IOException {
    Path folder = Files.createDirectories(proc.resolve("7"));
    write(folder.resolve("stat"), "7 (python3) " + state + " 1 2 3 4 5 6 7 8 9 10 0 0 13 14");
    write(folder.resolve("schedstat"), cpuNanos + " " + runQueueNanos + " 1");
  }

  private static void write(Path file, String text) throws IOException {
    Files.write(file, text.getBytes(StandardCharsets.US_ASCII));
  }

  @Test
  void sleepThatTheKernelCountsAsAWaitIsNone() throws IOException {
    counters('S', 0, 0);
    try (WorkerProcess worker = new WorkerProcess(proc.toString(), 7)) {
      long start = System.nanoTime();
      worker.look(start + SECOND_NANOS);
      // The counters claim a day; between these two looks at a sleeping process no second passed.
      counters('S', 0, 86_400 * SECOND_NANOS);
      double waited = 0;
      for (int second = 2; second < 100; second++) {
        worker.look(start + second * SECOND_NANOS);
        waited += worker.runQueue;
      }
      assertTrue(waited < 50, waited + " of 98 seconds");
      assertEquals(0, worker.cpu);
    }
  }

  @Test
  void aWaitThatGoesOnIsCountedOnce() throws IOException {
    counters('R', 0, 0);
    try (WorkerProcess worker = new WorkerProcess(proc.toString(), 7)) {
      long start = System.nanoTime();
      worker.look(start);
      worker.look(start + SECOND_NANOS);
      assertEquals(1, worker.runQueue, 1e-9);
      counters('S', 0, SECOND_NANOS);
      worker.look(start + 2 * SECOND_NANOS);
      assertEquals(0, worker.runQueue, 1e-3);
    }
  }
}
