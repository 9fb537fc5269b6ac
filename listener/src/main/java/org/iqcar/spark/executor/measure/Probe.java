package org.iqcar.spark.executor.measure;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import org.iqcar.spark.settings.Settings;

/** Reads stacks, and measures what that and the sampler's threads cost. */
class Probe {
  /** The collectors that stop the JVM: others report concurrent cycles, which do not. */
  private static final GarbageCollectorMXBean[] STOPPING =
      ManagementFactory.getGarbageCollectorMXBeans().stream()
          .filter(gc -> !gc.getName().contains("Concurrent") && !gc.getName().contains("Cycles"))
          .toArray(GarbageCollectorMXBean[]::new);

  private final Settings settings;
  private long stoppedNanos;

  Probe(Settings settings) {
    this.settings = settings;
  }

  /** For how long collections have stopped the JVM since its start, in ms. */
  static long pausesMs() {
    long total = 0;
    for (GarbageCollectorMXBean gc : STOPPING) {
      total += Math.max(0, gc.getCollectionTime());
    }
    return total;
  }

  /** The time, as {@link System#nanoTime}. */
  long nanos() {
    return System.nanoTime();
  }

  /** Processor time of the calling thread and of another one, in ns. */
  long cpuNanos(Thread other) {
    return Math.max(0, TaskClocks.THREADS.getCurrentThreadCpuTime())
        + Math.max(0, TaskClocks.THREADS.getThreadCpuTime(other.getId()));
  }

  /** How many processors share the sampler's processor time. */
  int processors() {
    return Runtime.getRuntime().availableProcessors();
  }

  /** Reads the stacks of threads; stops the whole JVM meanwhile. */
  ThreadInfo[] stacks(long[] ids) {
    long before = pausesMs();
    long began = System.nanoTime();
    ThreadInfo[] infos = TaskClocks.THREADS.getThreadInfo(ids, settings.sampleDepth);
    long took = System.nanoTime() - began;
    // A collection is not its doing. Its own wait for a processor stays in: an upper bound.
    stoppedNanos = Math.max(0, took - 1_000_000L * (pausesMs() - before));
    return infos;
  }

  /** For how long the last {@link #stacks} stopped the JVM at most, in ns. */
  long stoppedNanos() {
    return stoppedNanos;
  }
}
