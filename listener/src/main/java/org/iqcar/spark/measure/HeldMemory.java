package org.iqcar.spark.measure;

import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;

/**
 * Reads now and then how much execution memory each running task holds.
 *
 * <p>In a thread of its own, because Spark answers under the lock of its memory manager, and keeps
 * that while it evicts cached blocks to disk: the sampler would stand still just when there is a
 * wait for memory to see. A task that waits for execution memory has given the lock back.
 */
final class HeldMemory implements Runnable {
  /** Waking up is what costs; an interval of a profile still gets five readings. */
  private static final long LEAST_PERIOD_NANOS = 50_000_000L;
  private static final long IDLE_NANOS = 1_000_000_000L;
  /** Readings of all tasks failing one after the other before reading is given up. */
  private static final int MOST_FAILURES = 50;

  private final Map<Long, TaskWatch> watches;
  private final long periodNanos;
  private final Thread thread = new Thread(this, "iqcar-memory");
  private volatile boolean stopped;

  HeldMemory(Map<Long, TaskWatch> watches, long samplePeriodNanos) {
    this.watches = watches;
    periodNanos = Math.max(LEAST_PERIOD_NANOS, samplePeriodNanos);
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** There is a task to watch again. */
  void wake() {
    LockSupport.unpark(thread);
  }

  void stop() {
    stopped = true;
    LockSupport.unpark(thread);
  }

  @Override
  public void run() {
    int failures = 0;
    while (!stopped && failures < MOST_FAILURES) {
      try {
        boolean idle = watches.isEmpty();
        LockSupport.parkNanos(this, idle ? IDLE_NANOS : periodNanos);
        if (idle) {
          // A task that has just begun holds nothing yet: that would say too little of a short one.
          continue;
        }
        Faults.at("memory");
        for (TaskWatch watch : watches.values()) {
          watch.holds(watch.context.taskMemoryManager().getMemoryConsumptionForThisTask());
        }
        failures = 0;
      } catch (ThreadDeath death) {
        throw death;
      } catch (Throwable failure) {
        Failures.note("reading how much memory tasks hold", failure);
        failures++;
      }
    }
  }
}
