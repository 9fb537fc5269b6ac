package org.iqcar.spark.measure;

import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.safety.OwnThread;

/**
 * Reads periodically how much execution memory each running task holds.
 *
 * <p>It has a thread of its own, because Spark answers under the lock of its memory manager and
 * holds that lock while it evicts cached blocks to disk: the sampler would be blocked just when
 * tasks wait for memory. A task that waits for execution memory has released the lock.
 */
final class HeldMemory implements Runnable {
  /** 50 ms: each wake-up costs, and an interval of a profile still gets five readings. */
  private static final long LEAST_PERIOD_NANOS = 50_000_000L;
  private static final long IDLE_NANOS = 1_000_000_000L;
  /** Failures in a row after which the thread gives up. */
  private static final int MOST_FAILURES = 50;

  private final Map<Long, TaskWatch> watches;
  private final LongSupplier periodNanos;
  final Thread thread = OwnThread.of("iqcar-memory", this);
  private volatile boolean stopped;

  HeldMemory(Map<Long, TaskWatch> watches, LongSupplier periodNanos) {
    this.watches = watches;
    this.periodNanos = periodNanos;
  }

  void start() {
    thread.start();
  }

  /** Ends the idle sleep: there is a task again. */
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
        LockSupport.parkNanos(this, idle
            ? IDLE_NANOS : Math.max(LEAST_PERIOD_NANOS, periodNanos.getAsLong()));
        if (idle) {
          // A task that has just begun holds nothing: a reading would understate a short task.
          continue;
        }
        Faults.at("memory");
        for (TaskWatch watch : watches.values()) {
          watch.holds(watch.context.taskMemoryManager().getMemoryConsumptionForThisTask());
        }
        failures = 0;
      } catch (Throwable failure) {
        Failures.note("reading how much memory tasks hold", failure);
        failures++;
      }
    }
  }
}
