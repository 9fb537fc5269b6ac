package org.iqcar.spark.executor.measure;

import java.io.IOException;
import java.util.Collection;
import org.iqcar.spark.events.WaitClass;
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

  /** The stops of a task whose thread has had so much until now, in ns. */
  Stops stops(long cpu, long runQueue) {
    return new Stops(cpu, runQueue);
  }

  /** How long one task was stopped: its thread and its Python workers. Guarded by the watch's lock. */
  final class Stops {
    /** What its Python workers computed and waited for the processor while it waited, in ns. */
    private double pythonCpu;
    private double pythonRunQueue;
    /** What thread and workers, and the groups, had when stops were last divided; in ns. */
    private long dividedCpu;
    private long dividedRunQueue;
    private long dividedStop = stoppedNanos();
    private double nanos;

    private Stops(long cpu, long runQueue) {
      dividedCpu = cpu;
      dividedRunQueue = runQueue;
    }

    /** Its workers spent so much of its wait on something. */
    void python(WaitClass what, double spent) {
      pythonCpu += what == WaitClass.PYTHON_CPU ? spent : 0;
      pythonRunQueue += what == WaitClass.PYTHON_RUN_QUEUE ? spent : 0;
    }

    /** Time since stops were last divided in which thread or workers ran or wanted to, in ns. */
    double wanted(long cpu, long runQueue) {
      return Math.max(0, cpu + pythonCpu - dividedCpu)
          + Math.max(0, runQueue + pythonRunQueue - dividedRunQueue);
    }

    /** Takes its part of the stops up to now. */
    void divide(long stop, long cpu, long runQueue) {
      // What was stopped was in the run queue meanwhile.
      double queued = runQueue + pythonRunQueue - dividedRunQueue;
      nanos += Math.max(0, Math.min(each(stop - dividedStop), queued));
      dividedStop = stop;
      dividedCpu = cpu + (long) pythonCpu;
      dividedRunQueue = runQueue + (long) pythonRunQueue;
    }

    /** The task ended. */
    void end(long cpu, long runQueue) {
      ended(wanted(cpu, runQueue));
      divide(stoppedNanos(), cpu, runQueue);
    }

    /** How long it was stopped so far, in ns. */
    long nanos() {
      return Math.round(nanos);
    }

    /** Whether the kernel tells, and has told each time. */
    boolean areKnown() {
      return isKnown();
    }
  }

  /** Ends it: it is not known from now on. */
  synchronized void close() {
    failed = true;
    if (limit != null) {
      limit.close();
    }
  }
}
