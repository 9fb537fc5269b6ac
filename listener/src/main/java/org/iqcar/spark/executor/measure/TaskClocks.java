package org.iqcar.spark.executor.measure;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import org.iqcar.spark.events.TaskRecord;
import org.iqcar.spark.executor.threads.KernelThread;

/** Clocks and counters of one task's thread at the task's start and end; used by that thread. */
final class TaskClocks {
  static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  /** Null where the kernel tells nothing. */
  private final KernelThread kernel;
  private final boolean timed;
  private final boolean contention;
  private final long startMs = System.currentTimeMillis();
  final long startGcMs = Probe.pausesMs();
  private final ThreadInfo startInfo = THREADS.getThreadInfo(Thread.currentThread().getId());
  private final StoreRequests requests = new StoreRequests();
  private final long[] startIo;
  private final long[] startFaults;
  /** Of the thread when the task started, in ns. */
  final long startRunQueue;
  final long startCpu;
  final long startNanos;

  /** Of the task, in ns; known once it has ended. */
  long wall;
  long cpu;
  long runQueue;
  long offCpu;
  /** The same in ms; −1 where the JVM does not tell. */
  long blockedMs;
  long gcMs;
  private long waitedMs;
  long majorFaults;
  long diskDelayMs;

  /**
   * Starts the clocks.
   *
   * @param kernel the calling thread's
   * @param contention whether the JVM keeps the blocked and waited time of its threads
   */
  TaskClocks(KernelThread kernel, boolean contention) throws IOException {
    this.kernel = kernel;
    timed = kernel != null && kernel.isTimed();
    this.contention = contention && startInfo.getBlockedTime() >= 0;
    startIo = kernel == null ? null : kernel.ownIo();
    startFaults = kernel == null ? null : kernel.ownFaults();
    startRunQueue = timed ? kernel.ownRunQueueNanos() : 0;
    startCpu = THREADS.getCurrentThreadCpuTime();
    startNanos = System.nanoTime();
  }

  /** Stops the clocks. */
  void end() throws IOException {
    cpu = THREADS.getCurrentThreadCpuTime() - startCpu;
    long waited = timed ? kernel.ownRunQueueNanos() - startRunQueue : 0;
    // The clocks are read one after the other, so CPU may be a little above the wall clock.
    wall = Math.max(System.nanoTime() - startNanos, cpu);
    runQueue = Math.min(waited, wall - cpu);
    offCpu = wall - cpu - runQueue;
    ThreadInfo info = THREADS.getThreadInfo(Thread.currentThread().getId());
    blockedMs = contention ? info.getBlockedTime() - startInfo.getBlockedTime() : -1;
    waitedMs = contention ? info.getWaitedTime() - startInfo.getWaitedTime() : -1;
    gcMs = Probe.pausesMs() - startGcMs;
    long[] faults = startFaults == null ? null : kernel.ownFaults();
    if (faults != null) {
      majorFaults = faults[0] - startFaults[0];
      diskDelayMs = faults[1] - startFaults[1];
    }
  }

  /** Adds when the task started and how its time divides. */
  void writeTimes(TaskRecord record) {
    record.number("start_ms", startMs).number("wall_ns", wall).number("cpu_ns", cpu);
    record.known("run_queue_ns", runQueue, timed);
  }

  /** Adds what was counted beside times. */
  void writeCounts(TaskRecord record) throws IOException {
    if (startIo != null) {
      record.io(startIo, kernel.ownIo());
    }
    record.known("major_faults", majorFaults, majorFaults > 0);
    record.known("disk_delay_ms", diskDelayMs, diskDelayMs > 0);
    record.known("blocked_ms", blockedMs, contention).known("waited_ms", waitedMs, contention);
    record.number("gc_ms", gcMs);
    requests.end(record);
  }
}
