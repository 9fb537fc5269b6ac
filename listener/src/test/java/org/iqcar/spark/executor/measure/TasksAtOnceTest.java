package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.apache.spark.TaskContext$;
import org.iqcar.spark.events.WaitClass;
import org.iqcar.spark.executor.threads.KernelThread;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.settings.Settings;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Many threads start and end tasks while the sampler looks: what holds whatever the order. */
class TasksAtOnceTest {
  private static final int TASKS = 12;
  /** Small intervals, so that tasks of milliseconds have profiles. */
  private static final Settings SETTINGS =
      new Settings(key -> key.equals("spark.iqcar.profile.bucket") ? "1ms" : null);
  private static final Object LOCK = new Object();

  /** What one thread of an executor does: tasks one after the other, each with a record. */
  private static final class Slot extends Thread {
    private final Random random;
    private final Sampler sampler;
    private final CyclicBarrier start;
    final Queue<String> records = new ConcurrentLinkedQueue<>();
    final AtomicReference<Throwable> failure = new AtomicReference<>();

    Slot(int seed, Sampler sampler, CyclicBarrier start) {
      random = new Random(seed);
      this.sampler = sampler;
      this.start = start;
    }

    @Override
    public void run() {
      try {
        start.await();
        for (int task = 0; task < TASKS; task++) {
          TaskWatch watch = sampler.watch(TaskContext$.MODULE$.empty());
          try {
            sampler.add(watch);
            work();
            sampler.remove(watch);
            records.add(watch.close("host", "1", null));
          } finally {
            watch.release();
          }
          if (task % 4 == 3) {
            KernelThread.closeIdle(); // as an application of this JVM does that has ended
          }
        }
      } catch (Throwable any) {
        failure.set(any);
      }
    }

    private void work() throws IOException {
      switch (random.nextInt(4)) {
        case 0:
          LockSupport.parkNanos(1_000_000L * random.nextInt(20));
          break;
        case 1:
          synchronized (LOCK) {
            LockSupport.parkNanos(500_000L);
          }
          break;
        case 2:
          Files.readAllBytes(Paths.get("/proc/self/maps"));
          break;
        default:
          for (int i = 0; i < 200; i++) {
            Thread.yield();
          }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {16, 64})
  void partsSumAndNothingIsLeftOfTasksThatHaveEnded(int slots) throws Exception {
    KernelThread.closeIdle();
    long failures = Failures.count();
    long descriptors = kernelFiles();
    Sampler sampler = new Sampler(SETTINGS);
    CyclicBarrier start = new CyclicBarrier(slots);
    List<Slot> all = new ArrayList<>();
    for (int i = 0; i < slots; i++) {
      all.add(new Slot(i, sampler, start));
    }
    CountDownLatch ended = new CountDownLatch(1);
    AtomicReference<Throwable> failure = new AtomicReference<>();
    Thread looks = new Thread(() -> {
      try {
        sampler.begin();
        while (ended.getCount() > 0) {
          sampler.round();
        }
      } catch (Throwable any) {
        failure.set(any);
      }
    });
    looks.start();
    all.forEach(Thread::start);
    for (Slot slot : all) {
      slot.join();
    }
    assertTrue(sampler.watches.isEmpty(), sampler.watches + " are left");
    ended.countDown();
    looks.join();
    assertNull(failure.get());
    for (Slot slot : all) {
      assertNull(slot.failure.get(), () -> slot.failure.get().toString());
      assertEquals(TASKS, slot.records.size());
      for (String record : slot.records) {
        check(record);
      }
    }
    sampler.stop();
    KernelThread.closeIdle();
    assertEquals(descriptors, kernelFiles());
    assertEquals(failures, Failures.count(), Failures.byPlace().toString());
  }

  /** Sampler, memory's thread and others call what they call, while the task ends. */
  @Test
  void aTaskThatEndsWhileOthersLookHasARecordWhosePartsSum() throws Exception {
    Sampler sampler = new Sampler(SETTINGS);
    int lookers = 16;
    for (int round = 0; round < 30; round++) {
      TaskWatch watch = sampler.watch(TaskContext$.MODULE$.empty());
      CyclicBarrier start = new CyclicBarrier(lookers + 1);
      CountDownLatch looked = new CountDownLatch(lookers);
      AtomicReference<Throwable> failure = new AtomicReference<>();
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < lookers; i++) {
        Random random = new Random(1_000L * round + i);
        Thread thread = new Thread(() -> {
          try {
            start.await();
            for (int look = 0; look < 50; look++) {
              look(watch, random);
              if (look == 25) {
                looked.countDown();
              }
            }
          } catch (Throwable any) {
            failure.set(any);
            looked.countDown();
          }
        });
        thread.start();
        threads.add(thread);
      }
      start.await();
      looked.await();
      check(watch.close("host", "1", null));
      double[] closed = watch.waits.weights();
      for (Thread thread : threads) {
        thread.join();
      }
      watch.release();
      assertNull(failure.get());
      assertArrayEquals(closed, watch.waits.weights());
    }
    sampler.stop();
  }

  private static void look(TaskWatch watch, Random random) {
    long cpu = random.nextInt(1_000_000);
    long queue = random.nextInt(1_000_000);
    int kind = random.nextInt(7);
    WaitClass wait = WaitClass.ALL[random.nextInt(WaitClass.ALL.length)];
    if (kind == 5) {
      watch.holds(random.nextInt(1 << 20));
    } else if (kind == 6) {
      watch.divide(random.nextInt(1 << 20));
    } else {
      synchronized (watch) { // one sampler looks, so its clock never runs backwards
        long[] times = {System.nanoTime(), cpu, queue};
        Look look = new Look(watch, times, random.nextInt(3), 1 + random.nextInt(3), true);
        switch (kind) {
          case 0: watch.seenRunnable(look); break;
          case 1: watch.slept(look, wait, random.nextInt(4)); break;
          case 2: watch.slept(look, null, LockOwners.UNKNOWN); break;
          case 3: watch.unread(look); break;
          default: watch.faulted(look);
        }
      }
    }
  }

  private static void check(String text) throws IOException {
    JsonNode record = new ObjectMapper().readTree(text);
    long off = record.get("off_cpu_ns").asLong();
    JsonNode queued = record.get("run_queue_ns");
    long queue = queued == null ? 0 : queued.asLong();
    long cpu = record.get("cpu_ns").asLong();
    assertEquals(record.get("wall_ns").asLong(), cpu + queue + off, text);
    assertTrue(cpu >= 0 && queue >= 0 && off >= 0, text);
    long waits = 0;
    for (JsonNode wait : record.get("waits_ns")) {
      assertTrue(wait.asLong() >= 0, text);
      waits += wait.asLong();
    }
    assertEquals(off, waits, text);
    assertTrue(record.get("off_samples").asLong() <= record.get("samples").asLong(), text);
    JsonNode coverage = record.get("coverage_pct");
    assertTrue(coverage == null || coverage.asLong() >= 0 && coverage.asLong() < 100, text);
    if (record.has("profile")) {
      checkProfile(record, text);
    }
  }

  /** Each series sums to its total's whole ms. */
  private static void checkProfile(JsonNode record, String text) {
    for (Map.Entry<String, JsonNode> series : (Iterable<Map.Entry<String, JsonNode>>)
        record.get("profile")::fields) {
      if (!series.getValue().isTextual() || series.getKey().equals("held_kib")) {
        continue;
      }
      long sum = 0;
      for (String run : series.getValue().asText().split(",")) {
        String[] times = run.split("\\*");
        sum += Long.parseLong(times[0]) * (times.length > 1 ? Long.parseLong(times[1]) : 1);
      }
      JsonNode total = record.has(series.getKey() + "_ns") ? record.get(series.getKey() + "_ns")
          : record.get("waits_ns").get(series.getKey());
      assertEquals(total.asLong() / 1_000_000L, sum, series.getKey() + " of " + text);
    }
  }

  /** Open files of threads and of control groups. */
  private static long kernelFiles() throws IOException {
    try (Stream<Path> files = Files.list(Paths.get("/proc/self/fd"))) {
      return files.filter(one -> {
        try {
          String path = Files.readSymbolicLink(one).toString();
          return path.startsWith("/proc/") && path.contains("/task/");
        } catch (IOException closed) {
          return false;
        }
      }).count();
    }
  }
}
