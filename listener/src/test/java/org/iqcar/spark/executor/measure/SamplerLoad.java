package org.iqcar.spark.executor.measure;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;
import org.iqcar.spark.settings.Setting;
import org.iqcar.spark.settings.Settings;

/** Threads that sleep and threads that compute, with the sampler or without it, for a benchmark. */
public final class SamplerLoad {
  private static final int FRAMES = 60;
  private static final long SLEEP_MS = 5;
  private static volatile boolean over;

  private SamplerLoad() {}

  /**
   * Prints the seconds, the units of work done, the CPU seconds of the sampler's threads and the
   * mean coverage in percent of the sleeping threads, after a warm-up.
   *
   * @param args sleeping threads, computing threads, seconds, the overhead allowed or "off"
   */
  public static void main(String[] args) throws Exception {
    int sleeping = Integer.parseInt(args[0]);
    int computing = Integer.parseInt(args[1]);
    boolean off = args[3].equals("off");
    Settings settings =
        new Settings(key -> key.equals(Setting.OVERHEAD.key) && !off ? args[3] : null);
    Sampler sampler = new Sampler(settings);
    LongAdder units = new LongAdder();
    List<TaskWatch> watches = new ArrayList<>();
    CountDownLatch begun = new CountDownLatch(sleeping + computing);
    for (int i = 0; i < sleeping + computing; i++) {
      boolean sleeps = i < sleeping;
      Thread thread = new Thread(() -> {
        TaskWatch watch = watch(sampler);
        if (!off) {
          sampler.add(watch);
        }
        synchronized (watches) {
          if (sleeps) {
            watches.add(watch);
          }
        }
        begun.countDown();
        if (sleeps) {
          deep(FRAMES);
        } else {
          compute(units);
        }
      });
      thread.setDaemon(true);
      thread.start();
    }
    begun.await();
    if (!off) {
      sampler.start();
    }
    Thread.sleep(1000);
    long began = System.nanoTime();
    long before = units.sum();
    double cpu = ownCpu();
    Thread.sleep(1000 * Integer.parseInt(args[2]));
    double seconds = (System.nanoTime() - began) / 1e9;
    System.out.printf("%f %d %f %f%n", seconds, units.sum() - before, ownCpu() - cpu,
        watches.stream().mapToLong(watch -> watch.waits.coverage()).average().orElse(100));
    over = true;
    System.exit(0);
  }

  private static TaskWatch watch(Sampler sampler) {
    try {
      return sampler.watch(null);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void deep(int frames) {
    if (frames > 0) {
      deep(frames - 1);
      return;
    }
    try {
      while (!over) {
        Thread.sleep(SLEEP_MS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static void compute(LongAdder units) {
    long state = 1;
    while (!over) {
      for (int i = 0; i < 10_000; i++) {
        state = state * 6364136223846793005L + 1442695040888963407L;
      }
      units.add(state == 0 ? 2 : 1);
    }
  }

  private static double ownCpu() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long nanos = 0;
    for (long id : threads.getAllThreadIds()) {
      ThreadInfo info = threads.getThreadInfo(id);
      if (info != null && info.getThreadName().startsWith("iqcar-")) {
        nanos += threads.getThreadCpuTime(id);
      }
    }
    return nanos / 1e9;
  }
}
