package org.iqcar.spark.executor.measure;

import java.io.IOException;
import java.util.Collection;
import org.iqcar.spark.executor.threads.CpuLimit;
import org.iqcar.spark.safety.Failures;

/**
 * Divides among tasks the time for which a processor quota stopped them.
 *
 * <p>The kernel counts the time of every processor that was stopped while a thread wanted it. A
 * quota stops all of them nearly at once: so each thread was stopped for that time divided by the
 * processors that the tasks wanted, and at most for its wait on the run queue. Both are compared in
 * windows of some periods of a quota, 0.1 s each by default.
 */
final class Throttling {
  private static final long WINDOW_NANOS = 250_000_000L;

  private final CpuLimit limit;
  private boolean failed;
  private long began = System.nanoTime();
  /** Time in this window that ended tasks ran or wanted to, in ns. */
  private double ofEnded;
  private double wanted = 1;

  Throttling(String proc) {
    limit = CpuLimit.open(proc);
  }

  /** Whether the kernel tells, and has told each time. */
  synchronized boolean isKnown() {
    return limit != null && !failed;
  }

  /** Total of the kernel, in ns; any number where it does not tell. */
  long stoppedNanos() {
    try {
      return isKnown() ? limit.stoppedNanos() : 0;
    } catch (IOException e) {
      failed(e);
      return 0;
    }
  }

  private synchronized void failed(IOException why) {
    if (!failed) {
      Failures.note("reading the control group", why);
    }
    failed = true;
  }

  /** A thread's part of the kernel's time, in ns. */
  synchronized double each(long stopped) {
    return stopped / wanted;
  }

  /** A task ended that ran or wanted to for so long since it was last divided, in ns. */
  synchronized void ended(double nanos) {
    ofEnded += nanos;
  }

  /** Divides the stops since the last time, if that was a window ago. */
  void divide(Collection<TaskWatch> watches, long now) {
    if (!isKnown() || now - began < WINDOW_NANOS) {
      return;
    }
    double busy = 0;
    for (TaskWatch watch : watches) {
      busy += watch.wanted();
    }
    begin(busy, now);
    long stopped = stoppedNanos();
    for (TaskWatch watch : watches) {
      watch.divide(stopped);
    }
  }

  private synchronized void begin(double busy, long now) {
    wanted = Math.max(1, Math.min((busy + ofEnded) / (now - began), limit.processors));
    ofEnded = 0;
    began = now;
  }

  /** Ends it: it is not known from now on. */
  synchronized void close() {
    failed = true;
    if (limit != null) {
      limit.close();
    }
  }
}
