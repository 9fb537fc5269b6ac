package org.iqcar.spark.executor.measure;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import org.apache.spark.TaskContext;
import org.iqcar.spark.events.Profile;
import org.iqcar.spark.events.TaskRecord;
import org.iqcar.spark.events.WaitClass;
import org.iqcar.spark.executor.python.PythonTask;
import org.iqcar.spark.executor.threads.KernelThread;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.settings.Settings;

/**
 * Measures one running task and builds its record. The task's own thread creates, closes and
 * releases it; the sampler calls {@link #seenRunnable}, {@link #slept} and {@link #unread}, and
 * {@link HeldMemory} calls {@link #holds}, under the watch's lock.
 */
public final class TaskWatch {
  static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  final TaskContext context;
  final Thread thread = Thread.currentThread();
  final KernelThread kernel;
  /** Whether the kernel counts the thread's times. */
  final boolean timed;
  final PythonTask python;
  /** Whether the sampler, whose thread alone uses this, saw it wait for an object store. */
  boolean asksStore;
  private final Settings settings;
  private final long startMs = System.currentTimeMillis();
  private final long startNanos;
  private final long startCpu;
  private final long startRunQueue;
  private final long[] startIo;
  private final long[] startFaults;
  private final StoreRequests requests = new StoreRequests();
  private final long startGcMs = Pauses.totalMs();
  private final ThreadInfo startInfo = THREADS.getThreadInfo(thread.getId());

  final SampledWaits waits = new SampledWaits();
  private final Profile profile;
  private long seenNanos;
  private long seenCpu;
  private long seenRunQueue;
  private long seenPausesMs = startGcMs;
  private double claimedRunQueue;
  private WaitClass seenWait;
  private boolean seenAsleep;
  /** Wait of unknown class since the last known one, and when it began. */
  private double unknownNanos;
  private long unknownFrom;
  private int samples;
  private int offSamples;
  private final HeldBytes held;
  private final LockOwners owners = new LockOwners();
  private boolean closed;
  private final Throttling throttling;
  /** What its Python workers computed and waited for the processor while it waited, in ns. */
  private double pythonCpu;
  private double pythonRunQueue;
  /** What thread and workers, and the groups, had when their stops were last divided; in ns. */
  private long dividedCpu;
  private long dividedRunQueue;
  private long dividedStop;
  private double stoppedNanos;

  /** Starts the task's clocks; called by the task's own thread. */
  TaskWatch(TaskContext context, Settings settings, Throttling throttling)
      throws IOException {
    this.context = context;
    this.settings = settings;
    this.throttling = throttling;
    kernel = KernelThread.begin(settings.proc);
    timed = kernel != null && kernel.isTimed();
    python = settings.python && timed ? new PythonTask(settings.proc) : null;
    profile = settings.profileBucketNanos > 0 && settings.samplePeriodNanos > 0
        ? new Profile(settings.profileBucketNanos, settings.profileBuckets) : null;
    startIo = kernel == null ? null : kernel.ownIo();
    startFaults = kernel == null ? null : kernel.ownFaults();
    startRunQueue = timed ? kernel.ownRunQueueNanos() : 0;
    startCpu = THREADS.getCurrentThreadCpuTime();
    startNanos = System.nanoTime();
    held = new HeldBytes(profile);
    seenNanos = startNanos;
    seenCpu = startCpu;
    seenRunQueue = startRunQueue;
    dividedCpu = startCpu;
    dividedRunQueue = startRunQueue;
    dividedStop = throttling.stoppedNanos();
  }

  /** The sampler saw the thread running, or waiting to run. */
  synchronized void seenRunnable(Look look) {
    if (!closed) {
      // The kernel adds a wait on the run queue only when it ends. So time off the processor
      // counts as such a wait now, and what the kernel adds later is set off against it.
      seenWait = null;
      seenAsleep = false;
      double elapsed = look.now - seenNanos;
      double onCpu = clamp(look.cpu - seenCpu, elapsed);
      double rest = elapsed - onCpu;
      double known = Math.max(0, look.runQueue - seenRunQueue - claimedRunQueue);
      double paused = clamp((look.pausesMs - seenPausesMs) * 1e6, rest - known);
      waits.counted(WaitClass.GC_SAFEPOINT, paused);
      draw(WaitClass.GC_SAFEPOINT, seenNanos, look.now, paused);
      double waited = timed ? rest - paused : 0;
      claimedRunQueue = Math.max(0, claimedRunQueue + waited - (look.runQueue - seenRunQueue));
      seen(look, onCpu, waited);
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
  synchronized void slept(Look look, WaitClass wait, long owner) {
    if (!closed) {
      long from = seenNanos;
      double off = asleep(look);
      if (wait == null) {
        unknown(from, off);
      } else {
        double[] parts = wait == WaitClass.PYTHON_WORKER && python != null
            ? python.split(look.now) : null;
        for (int i = 0; i < (parts == null ? 1 : parts.length); i++) {
          WaitClass one = parts == null ? wait : PythonTask.CLASSES[i];
          double part = parts == null ? 1 : parts[i];
          waits.known(one, part);
          pythonCpu += one == WaitClass.PYTHON_CPU ? part * (off + unknownNanos) : 0;
          pythonRunQueue += one == WaitClass.PYTHON_RUN_QUEUE ? part * (off + unknownNanos) : 0;
          // What was unknown before goes there too, so an interval's series sum to its width.
          draw(one, unknownNanos > 0 ? unknownFrom : from, look.now, part * (off + unknownNanos));
        }
        unknownNanos = 0;
        offSamples++;
      }
      waits.taken(wait);
      if (owner != LockOwners.UNKNOWN) {
        owners.held(owner, off);
      }
      seenWait = wait;
    }
  }

  /** The sampler saw the thread asleep, and its stack was not read: the budget was spent. */
  synchronized void unread(Look look) {
    if (!closed) {
      long from = seenNanos;
      unknown(from, asleep(look));
      seenWait = null;
    }
  }

  /** Time of waits for locks whose owner was seen, in ns. */
  synchronized double ownedNanos() {
    return owners.totalNanos();
  }

  /** The sampler saw the thread asleep while the kernel read a page for it. */
  synchronized void faulted(Look look) {
    if (!closed) {
      long from = seenNanos;
      double off = off(look);
      waits.told(WaitClass.PAGE_FAULT, off);
      draw(WaitClass.PAGE_FAULT, from, look.now, off);
      offSamples++;
      seenAsleep = true;
      seenWait = WaitClass.PAGE_FAULT;
    }
  }

  /** Accounts for a look at the sleeping thread; its wait since the look before, in ns. */
  private double asleep(Look look) {
    boolean first = !sleepsOn(look.cpu);
    double off = off(look);
    waits.asleep(off, first, look.stands);
    seenAsleep = true;
    return off;
  }

  /** Takes the clocks of a look at the sleeping thread; its wait since the look before, in ns. */
  private double off(Look look) {
    double elapsed = look.now - seenNanos;
    double onCpu = clamp(look.cpu - seenCpu, elapsed);
    double waited = clamp(look.runQueue - seenRunQueue - claimedRunQueue, elapsed - onCpu);
    claimedRunQueue = 0;
    seen(look, onCpu, waited);
    return elapsed - onCpu - waited;
  }

  private void unknown(long from, double nanos) {
    unknownFrom = unknownNanos > 0 ? unknownFrom : from;
    unknownNanos += nanos;
  }

  /** Whether the thread has been asleep since the last look. */
  synchronized boolean sleepsOn(long cpu) {
    return seenAsleep && cpu == seenCpu;
  }

  /** Time since stops were last divided in which thread or workers ran or wanted to, in ns. */
  synchronized double wanted() {
    return wanted(seenCpu, seenRunQueue);
  }

  private double wanted(long cpu, long runQueue) {
    return Math.max(0, cpu + pythonCpu - dividedCpu)
        + Math.max(0, runQueue + pythonRunQueue - dividedRunQueue);
  }

  /** Takes the task's part of the stops up to now. */
  synchronized void divide(long stop) {
    if (!closed) {
      divide(stop, seenCpu, seenRunQueue);
    }
  }

  private void divide(long stop, long cpu, long runQueue) {
    // What was stopped was in the run queue meanwhile.
    stoppedNanos += clamp(
        throttling.each(stop - dividedStop), runQueue + pythonRunQueue - dividedRunQueue);
    dividedStop = stop;
    dividedCpu = cpu + (long) pythonCpu;
    dividedRunQueue = runQueue + (long) pythonRunQueue;
  }

  /** The task holds so many bytes of execution memory now. */
  synchronized void holds(long bytes) {
    if (!closed) {
      held.read(System.nanoTime() - startNanos, bytes);
    }
  }

  private void seen(Look look, double onCpu, double waited) {
    if (profile != null) {
      profile.add(Profile.CPU, seenNanos - startNanos, look.now - startNanos, onCpu);
      profile.add(Profile.RUN_QUEUE, seenNanos - startNanos, look.now - startNanos, waited);
    }
    seenNanos = look.now;
    seenCpu = look.cpu;
    seenRunQueue = look.runQueue;
    seenPausesMs = look.pausesMs;
    samples++;
  }

  /** Adds a wait to the profile. */
  private void draw(WaitClass wait, long from, long to, double nanos) {
    if (profile != null) {
      profile.add(Profile.series(wait), from - startNanos, to - startNanos, nanos);
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
    throttling.ended(wanted(startCpu + cpu, startRunQueue + runQueue));
    divide(throttling.stoppedNanos(), startCpu + cpu, startRunQueue + runQueue);
    runQueue = Math.min(runQueue, wall - cpu);
    long off = wall - cpu - runQueue;
    ThreadInfo info = THREADS.getThreadInfo(thread.getId());
    boolean contention = settings.contention && startInfo.getBlockedTime() >= 0;
    long blockedMs = contention ? info.getBlockedTime() - startInfo.getBlockedTime() : -1;
    long waitedMs = contention ? info.getWaitedTime() - startInfo.getWaitedTime() : -1;
    long gcMs = Pauses.totalMs() - startGcMs;
    long[] faults = faults();
    boolean counters = offSamples == 0
        && (waits.counted(WaitClass.GC_SAFEPOINT) == 0 || waits.coverage() < 100);
    long[] split = ExactSplit.split(
        off, counters ? byCounters(off, blockedMs, gcMs, faults) : waits.weights());

    TaskRecord record = new TaskRecord();
    record.text("host", host).text("executor", executor).number("start_ms", startMs);
    record.number("wall_ns", wall).number("cpu_ns", cpu);
    record.known("run_queue_ns", runQueue, timed);
    long queued = runQueue + split[WaitClass.PYTHON_RUN_QUEUE.ordinal()];
    record.known("throttled_ns", Math.min(Math.round(stoppedNanos), queued),
        timed && sampler == null && throttling.isKnown());
    record.number("off_cpu_ns", off).waits(split);
    record.number("samples", samples).number("off_samples", offSamples);
    record.known("coverage_pct", waits.coverage(), waits.coverage() < 100);
    if (startIo != null) {
      record.io(startIo, kernel.ownIo());
    }
    record.known("major_faults", faults[0], faults[0] > 0);
    record.known("disk_delay_ms", faults[1], faults[1] > 0);
    record.known("blocked_ms", blockedMs, contention).known("waited_ms", waitedMs, contention);
    record.number("gc_ms", gcMs);
    requests.end(record);
    held.end(wall);
    record.known("peak_held_bytes", held.peak(), held.known());
    record.known("mean_held_bytes", held.mean(wall), held.known());
    record.text("pool", context.getLocalProperty("spark.scheduler.pool"));
    record.text("sampler", sampler);
    record.known("failures", Failures.count(), Failures.count() > 0);
    record.text("lock_owners", owners.encode(lockScale(split)));
    if (profile != null && samples > 0) {
      long[] totals = new long[Profile.series(WaitClass.ALL[0]) + split.length];
      totals[Profile.CPU] = cpu;
      totals[Profile.RUN_QUEUE] = runQueue;
      System.arraycopy(split, 0, totals, Profile.series(WaitClass.ALL[0]), split.length);
      record.raw("profile", profile.encode(wall, totals, settings.profileBytes));
    }
    return record.json();
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

  /** What {@link KernelThread#ownFaults} counted during the task; zeros where it does not tell. */
  private long[] faults() {
    long[] now = startFaults == null ? null : kernel.ownFaults();
    return now == null ? new long[2]
        : new long[] {now[0] - startFaults[0], now[1] - startFaults[1]};
  }

  /** What one ns of a lock's wait that was seen stands for, in ns. */
  private double lockScale(long[] split) {
    double known = 0;
    double all = 0;
    for (WaitClass wait : WaitClass.ALL) {
      if (wait.isLock()) {
        known += waits.known(wait);
        all += split[wait.ordinal()];
      }
    }
    return known > 0 ? all / known : 0;
  }

  /** Splits the wait of a task that no sample found asleep by what Spark and the JVM counted. */
  private double[] byCounters(long off, long blockedMs, long gcMs, long[] faults) {
    double[] parts = new double[WaitClass.ALL.length];
    double left = take(parts, WaitClass.SHUFFLE_FETCH, off,
        context.taskMetrics().shuffleReadMetrics().fetchWaitTime());
    left = take(parts, WaitClass.PAGE_FAULT, left, faults[0] > 0 ? faults[1] : 0);
    left = take(parts, WaitClass.MONITOR_BLOCKED, left, blockedMs);
    left = take(parts, WaitClass.GC_SAFEPOINT, left, gcMs);
    parts[WaitClass.OTHER.ordinal()] = left;
    return parts;
  }

  private static double take(double[] parts, WaitClass wait, double left, long ms) {
    double part = clamp(ms * 1e6, left);
    parts[wait.ordinal()] = part;
    return left - part;
  }
}
