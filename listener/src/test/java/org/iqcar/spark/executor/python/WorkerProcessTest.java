package org.iqcar.spark.executor.python;

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
  void ofASleepThatTheKernelCountsTheTimeSinceTheLastLookIsWaitedFor() throws Exception {
    counters('S', 0, 0);
    try (WorkerProcess worker = new WorkerProcess(proc.toString(), 7)) {
      // What was before the last look must not count: let it be longer than what comes after it.
      Thread.sleep(200);
      long before = System.nanoTime();
      worker.look(before);
      counters('S', 0, 86_400 * SECOND_NANOS);
      // The looks are a second apart by what they are told, and much less by the clock.
      worker.look(before + SECOND_NANOS);
      long passed = System.nanoTime() - before;
      double waited = worker.runQueue * SECOND_NANOS;
      worker.look(before + 2 * SECOND_NANOS);
      waited += worker.runQueue * SECOND_NANOS;
      assertTrue(waited > 0 && waited <= passed + 1, waited + " of " + passed);
      assertEquals(0, worker.cpu);
    }
  }

  @Test
  void sleepOnADiskOutsideOfASystemCallIsAPageFault() throws IOException {
    counters('D', 0, 0);
    write(proc.resolve("7/syscall"), "-1 0x7ff 0x55");
    try (WorkerProcess worker = new WorkerProcess(proc.toString(), 7)) {
      long start = System.nanoTime();
      worker.look(start + SECOND_NANOS);
      assertEquals(1, worker.fault, 1e-9);
      assertEquals(0, worker.io, 1e-9);
      write(proc.resolve("7/syscall"), "0 0x3 0x7f");
      worker.look(start + 2 * SECOND_NANOS);
      assertEquals(0, worker.fault, 1e-9);
      assertEquals(1, worker.io, 1e-9);
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
