package org.iqcar.spark.executor.threads;

/**
 * A thread's total wait on the run queue, without sleep that the kernel counts as such a wait.
 *
 * <p>The kernel adds a wait when it ends, and on a busy machine Linux 6.18 adds whole sleeps of
 * seconds now and then. A thread that was seen asleep did not wait at that time, so what the kernel
 * adds afterwards is cut to the time since then.
 */
public final class RunQueueWaits {
  private long counted;
  private long total;
  private long restedNanos;

  /**
   * A thread that does not wait now.
   *
   * @param counted the kernel's total, in ns
   * @param now time of {@link System#nanoTime}, before that was read
   */
  public RunQueueWaits(long counted, long now) {
    this.counted = counted;
    total = counted;
    restedNanos = now;
  }

  /**
   * The total, in ns.
   *
   * @param newlyCounted the kernel's total, in ns
   * @param runnable whether the thread may be waiting now
   * @param before time of {@link System#nanoTime}, before both were read
   * @param after the same, afterwards
   */
  public synchronized long total(long newlyCounted, boolean runnable, long before, long after) {
    // Another thread may have read a newer total, and may have come here first.
    long added = Math.max(0, newlyCounted - counted);
    total += Math.min(added, Math.max(0, after - restedNanos));
    counted += added;
    if (!runnable && before - restedNanos > 0) {
      restedNanos = before;
    }
    return total;
  }
}
