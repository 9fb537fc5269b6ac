package org.iqcar.spark.executor.measure;

import org.iqcar.spark.events.WaitClass;

/** What one look of the sampler saw of a task's thread, before its stack is read. */
final class Look {
  final TaskWatch watch;
  /** Time of {@link System#nanoTime}. */
  final long now;
  /** The thread's total processor time, in ns. */
  final long cpu;
  /** The thread's total wait on the run queue, in ns. */
  final long runQueue;
  /**
   * How long the JVM has been stopped in all, in ms. The sampler is stopped too and never sees a
   * pause, but a thread that runs afterwards has waited for its end.
   */
  final long pausesMs;
  /** How many looks of the wanted period it stands for. */
  final double stands;
  /** Whether the thread sleeps uninterruptibly: the kernel's state D. */
  final boolean disk;

  Look(TaskWatch watch, long[] times, long pausesMs, double stands, boolean disk) {
    this.watch = watch;
    now = times[0];
    cpu = times[1];
    runQueue = times[2];
    this.pausesMs = pausesMs;
    this.stands = stands;
    this.disk = disk;
  }

  long threadId() {
    return watch.thread.getId();
  }

  /** What it was last seen waiting for, if it has not run since; else null. */
  WaitClass before() {
    return watch.stillWaits(cpu);
  }

  /** Whether it has been asleep since the look before. */
  boolean lasting() {
    return watch.sleepsOn(cpu);
  }
}
