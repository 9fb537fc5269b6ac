package org.iqcar.spark.executor.measure;

import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import org.iqcar.spark.safety.Safely;

/**
 * Reads periodically how much execution memory each running task holds.
 *
 * <p>It has a thread of its own, because Spark answers under the lock of its memory manager and
 * holds that lock while it evicts cached blocks to disk: the sampler would be blocked just when
 * tasks wait for memory. A task that waits for execution memory has released the lock.
 */
final class HeldMemory {
  /** 50 ms: each wake-up costs, and an interval of a profile still gets five readings. */
  private static final long LEAST_PERIOD_NANOS = 50_000_000L;
  private static final long IDLE_NANOS = 1_000_000_000L;
  /** Failures in a row after which the thread gives up. */
  private static final int MOST_FAILURES = 50;

  private final Map<Long, TaskWatch> watches;
  private final LongSupplier periodNanos;
  final Thread thread = Safely.thread("iqcar-memory", this::run);
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

  private void run() {
    int failures = 0;
    while (!stopped && failures < MOST_FAILURES) {
      boolean idle = watches.isEmpty();
      LockSupport.parkNanos(this, idle
          ? IDLE_NANOS : Math.max(LEAST_PERIOD_NANOS, periodNanos.getAsLong()));
      // A task that has just begun holds nothing: a reading would understate a short task.
      if (!idle) {
        failures = Safely.run("reading how much memory tasks hold", this::read) ? 0 : failures + 1;
      }
    }
  }

  private void read() {
    for (TaskWatch watch : watches.values()) {
      watch.holds(watch.context.taskMemoryManager().getMemoryConsumptionForThisTask());
    }
  }
}
