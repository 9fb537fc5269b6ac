package org.iqcar.spark.measure;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.stream.DoubleStream;
import org.apache.spark.TaskContext;
import org.iqcar.spark.eventlog.Profile;
import org.iqcar.spark.eventlog.TaskRecord;
import org.iqcar.spark.python.PythonTask;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.threads.KernelThread;
import org.iqcar.spark.threads.WaitClass;

/**
 * Measures one running task and builds its record. The task's own thread creates, closes and
 * releases it; the sampler calls {@link #ran} and {@link #slept}, and {@link HeldMemory} calls
 * {@link #holds}, under the watch's lock.
 */
public final class TaskWatch {
  static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  final TaskContext context;
  final Thread thread = Thread.currentThread();
  final KernelThread kernel;
  /** Whether the kernel counts the thread's times. */
  final boolean timed;
  final PythonTask python;
  private final Settings settings;
  private final long startMs = System.currentTimeMillis();
  private final long startNanos;
  private final long startCpu;
  private final long startRunQueue;
  private final long[] startIo;
  private final long startGcMs = Pauses.totalMs();
  private final ThreadInfo startInfo = THREADS.getThreadInfo(thread.getId());

  private final double[] waits = new double[WaitClass.ALL.length];
  private final Profile profile;
  private long seenNanos;
  private long seenCpu;
  private long seenRunQueue;
  private long seenPausesMs = startGcMs;
  private double claimedRunQueue;
  private WaitClass seenWait;
  private int samples;
  private int offSamples;
  private final HeldBytes held;
  private final LockOwners owners = new LockOwners();
  private boolean closed;

  /** Starts the task's clocks; called by the task's own thread. */
  public TaskWatch(TaskContext context, Settings settings) throws IOException {
    this.context = context;
    this.settings = settings;
    kernel = KernelThread.current(settings.proc);
    timed = kernel != null && kernel.isTimed();
    if (kernel != null) {
      kernel.busy = true;
    }
    python = settings.python && timed ? new PythonTask(settings.proc) : null;
    profile = settings.profileBucketNanos > 0 && settings.samplePeriodNanos > 0
        ? new Profile(settings.profileBucketNanos, settings.profileBuckets) : null;
    startIo = kernel == null ? null : kernel.ownIo();
    startRunQueue = timed ? kernel.ownRunQueueNanos() : 0;
    startCpu = THREADS.getCurrentThreadCpuTime();
    startNanos = System.nanoTime();
    held = new HeldBytes(profile);
    seenNanos = startNanos;
    seenCpu = startCpu;
    seenRunQueue = startRunQueue;
  }

  /**
   * The sampler saw the thread running, or waiting to run.
   *
   * @param now time of {@link System#nanoTime}
   * @param cpu the thread's total processor time, in ns
   * @param runQueue the thread's total wait on the run queue, in ns
   * @param pausesMs how long the JVM has been stopped in all, in ms. The sampler is stopped too and
   *     never sees a pause, but a thread that runs afterwards has waited for its end.
   */
  synchronized void ran(long now, long cpu, long runQueue, long pausesMs) {
    if (!closed) {
      long from = seenNanos - startNanos;
      double onCpu = clamp(cpu - seenCpu, now - seenNanos);
      // The kernel adds a wait on the run queue only when it ends. So time off the processor
      // counts as such a wait now, and what the kernel adds later is set off against it.
      seenWait = null;
      double rest = now - seenNanos - onCpu;
      double known = Math.max(0, runQueue - seenRunQueue - claimedRunQueue);
      double paused = clamp((pausesMs - seenPausesMs) * 1e6, rest - known);
      addWait(WaitClass.GC_SAFEPOINT, from, now - startNanos, paused);
      double waited = timed ? rest - paused : 0;
      claimedRunQueue = Math.max(0, claimedRunQueue + waited - (runQueue - seenRunQueue));
      seenPausesMs = pausesMs;
      look(now, cpu, runQueue, from, onCpu, waited);
    }
  }

  /** Whether the thread had a processor for most of the time since the last look. */
  synchronized boolean ranMostly(long now, long cpu) {
    return 2 * (cpu - seenCpu) > now - seenNanos;
  }

  /** What the thread was last seen waiting for, if it has not run since; else null. */
  synchronized WaitClass stillWaits(long cpu) {
    // A pause ends by itself: what sleeps on may wait for something else by now.
    return cpu == seenCpu && seenWait != WaitClass.GC_SAFEPOINT ? seenWait : null;
  }

  /** Whether the JVM, stopped for so long in all, has been stopped since the last look. */
  synchronized boolean pausedSince(long pausesMs) {
    return pausesMs > seenPausesMs;
  }

  /**
   * The sampler saw the thread asleep.
   *
   * @param wait what it waits for, or null where it woke up before its stack was read
   * @param owner the task that holds the lock that it waits for, or {@link LockOwners#UNKNOWN}
   */
  synchronized void slept(
      long now, long cpu, long runQueue, long pausesMs, WaitClass wait, long owner) {
    if (!closed) {
      long from = seenNanos - startNanos;
      double elapsed = now - seenNanos;
      double onCpu = clamp(cpu - seenCpu, elapsed);
      double waited = clamp(runQueue - seenRunQueue - claimedRunQueue, elapsed - onCpu);
      claimedRunQueue = 0;
      double off = elapsed - onCpu - waited;
      if (wait == WaitClass.PYTHON_WORKER && python != null) {
        double[] split = python.split(now);
        for (int i = 0; i < split.length; i++) {
          addWait(PythonTask.CLASSES[i], from, now - startNanos, off * split[i]);
        }
      } else if (wait != null) {
        addWait(wait, from, now - startNanos, off);
      }
      if (owner != LockOwners.UNKNOWN) {
        owners.held(owner, off);
      }
      if (wait != null) {
        offSamples++;
      }
      seenWait = wait;
      seenPausesMs = pausesMs;
      look(now, cpu, runQueue, from, onCpu, waited);
    }
  }

  /** The task holds so many bytes of execution memory now. */
  synchronized void holds(long bytes) {
    if (!closed) {
      held.read(System.nanoTime() - startNanos, bytes);
    }
  }

  private void look(
      long now, long cpu, long runQueue, long from, double onCpu, double waited) {
    if (profile != null) {
      profile.add(Profile.CPU, from, now - startNanos, onCpu);
      profile.add(Profile.RUN_QUEUE, from, now - startNanos, waited);
    }
    seenNanos = now;
    seenCpu = cpu;
    seenRunQueue = runQueue;
    samples++;
  }

  private void addWait(WaitClass wait, long from, long to, double nanos) {
    waits[wait.ordinal()] += nanos;
    if (profile != null) {
      profile.add(Profile.series(wait), from, to, nanos);
    }
  }

  private static double clamp(double value, double most) {
    return Math.max(0, Math.min(value, most));
  }

  /** Ends the watch and returns the task's record; called once, by the task's own thread. */
  public synchronized String close(String host, String executor, String sampler)
      throws IOException {
    closed = true;
    long cpu = THREADS.getCurrentThreadCpuTime() - startCpu;
    long runQueue = timed ? kernel.ownRunQueueNanos() - startRunQueue : 0;
    // The clocks are read one after the other, so CPU may be a little above the wall clock.
    long wall = Math.max(System.nanoTime() - startNanos, cpu);
    runQueue = Math.min(runQueue, wall - cpu);
    long off = wall - cpu - runQueue;
    ThreadInfo info = THREADS.getThreadInfo(thread.getId());
    boolean contention = settings.contention && startInfo.getBlockedTime() >= 0;
    long blockedMs = contention ? info.getBlockedTime() - startInfo.getBlockedTime() : -1;
    long waitedMs = contention ? info.getWaitedTime() - startInfo.getWaitedTime() : -1;
    long gcMs = Pauses.totalMs() - startGcMs;
    if (offSamples == 0 && waits[WaitClass.GC_SAFEPOINT.ordinal()] == 0) {
      splitByCounters(off, blockedMs, gcMs);
    }
    long[] split = ExactSplit.split(off, waits);

    TaskRecord record = new TaskRecord();
    record.text("host", host).text("executor", executor).number("start_ms", startMs);
    record.number("wall_ns", wall).number("cpu_ns", cpu);
    record.known("run_queue_ns", runQueue, timed);
    record.number("off_cpu_ns", off).waits(split);
    record.number("samples", samples).number("off_samples", offSamples);
    if (startIo != null) {
      record.io(startIo, kernel.ownIo());
    }
    record.known("blocked_ms", blockedMs, contention).known("waited_ms", waitedMs, contention);
    record.number("gc_ms", gcMs);
    held.end(wall);
    record.known("peak_held_bytes", held.peak(), held.known());
    record.known("mean_held_bytes", held.mean(wall), held.known());
    record.text("pool", context.getLocalProperty("spark.scheduler.pool"));
    record.text("sampler", sampler);
    record.known("failures", Failures.count(), Failures.count() > 0);
    record.text("lock_owners", owners.encode(off / DoubleStream.of(waits).sum()));
    if (profile != null && samples > 0) {
      long[] totals = new long[Profile.series(WaitClass.ALL[0]) + split.length];
      totals[Profile.CPU] = cpu;
      totals[Profile.RUN_QUEUE] = runQueue;
      System.arraycopy(split, 0, totals, Profile.series(WaitClass.ALL[0]), split.length);
      record.raw("profile", profile.encode(wall, totals, settings.profileBytes));
    }
    return record.json();
  }

  /** The kernel's id of the task's thread, or null where the kernel counts nothing by it. */
  public String tid() {
    return timed ? kernel.tid : null;
  }

  /** Closes or gives back the kernel's files; called last, by the task's own thread. */
  public void release() {
    if (python != null) {
      python.close();
    }
    if (kernel != null) {
      kernel.busy = false;
    }
  }

  /** Splits the wait of a task that no sample found asleep by what Spark and the JVM counted. */
  private void splitByCounters(long off, long blockedMs, long gcMs) {
    double left = take(WaitClass.SHUFFLE_FETCH, off,
        context.taskMetrics().shuffleReadMetrics().fetchWaitTime());
    left = take(WaitClass.MONITOR_BLOCKED, left, blockedMs);
    left = take(WaitClass.GC_SAFEPOINT, left, gcMs);
    waits[WaitClass.OTHER.ordinal()] = left;
  }

  private double take(WaitClass wait, double left, long ms) {
    double part = clamp(ms * 1e6, left);
    waits[wait.ordinal()] = part;
    return left - part;
  }
}
