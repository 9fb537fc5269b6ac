package org.iqcar.spark.executor.measure;

import java.io.IOException;
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
  final TaskContext context;
  final Thread thread = Thread.currentThread();
  final KernelThread kernel;
  /** Whether the kernel counts the thread's times. */
  final boolean timed;
  final PythonTask python;
  /** Whether the sampler, whose thread alone uses this, saw it wait for an object store. */
  boolean asksStore;
  private final Settings settings;
  private final TaskClocks clocks;

  final SampledWaits waits = new SampledWaits();
  private final Profile profile;
  private final HeldBytes held;
  private final LockOwners owners = new LockOwners();
  private final Throttling.Stops stops;
  /** What the last look saw. */
  private long seenNanos;
  private long seenCpu;
  private long seenRunQueue;
  private long seenPausesMs;
  private WaitClass seenWait;
  private boolean seenAsleep;
  /** Wait on the run queue that was counted before the kernel has, in ns. */
  private double claimedRunQueue;
  /** Wait of unknown class since the last known one, and when it began. */
  private double unknownNanos;
  private long unknownFrom;
  private int samples;
  private int offSamples;
  private boolean closed;

  /** Starts the task's clocks; called by the task's own thread. */
  TaskWatch(TaskContext context, Settings settings, Throttling throttling)
      throws IOException {
    this.context = context;
    this.settings = settings;
    kernel = KernelThread.begin(settings.proc);
    timed = kernel != null && kernel.isTimed();
    python = settings.python && timed ? new PythonTask(settings.proc) : null;
    profile = settings.profileBucketNanos > 0 && settings.samplePeriodNanos > 0
        ? new Profile(settings.profileBucketNanos, settings.profileBuckets) : null;
    held = new HeldBytes(profile);
    clocks = new TaskClocks(kernel, settings.contention);
    stops = throttling.stops(clocks.startCpu, clocks.startRunQueue);
    seenNanos = clocks.startNanos;
    seenCpu = clocks.startCpu;
    seenRunQueue = clocks.startRunQueue;
    seenPausesMs = clocks.startGcMs;
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
          stops.python(one, part * (off + unknownNanos));
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
    return stops.wanted(seenCpu, seenRunQueue);
  }

  /** Takes the task's part of the stops up to now. */
  synchronized void divide(long stop) {
    if (!closed) {
      stops.divide(stop, seenCpu, seenRunQueue);
    }
  }

  /** The task holds so many bytes of execution memory now. */
  synchronized void holds(long bytes) {
    if (!closed) {
      held.read(System.nanoTime() - clocks.startNanos, bytes);
    }
  }

  private void seen(Look look, double onCpu, double waited) {
    if (profile != null) {
      profile.add(Profile.CPU, seenNanos - clocks.startNanos, look.now - clocks.startNanos, onCpu);
      profile.add(Profile.RUN_QUEUE, seenNanos - clocks.startNanos, look.now - clocks.startNanos, waited);
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
      profile.add(Profile.series(wait), from - clocks.startNanos, to - clocks.startNanos, nanos);
    }
  }

  private static double clamp(double value, double most) {
    return Math.max(0, Math.min(value, most));
  }

  /** Ends the watch and returns the task's record; called once, by the task's own thread. */
  public synchronized String close(String host, String executor, String sampler)
      throws IOException {
    closed = true;
    clocks.end();
    stops.end(clocks.startCpu + clocks.cpu, clocks.startRunQueue + clocks.runQueue);
    boolean counters = offSamples == 0
        && (waits.counted(WaitClass.GC_SAFEPOINT) == 0 || waits.coverage() < 100);
    long[] split = SampledWaits.split(clocks.offCpu, counters ? byCounters() : waits.weights());

    TaskRecord record = new TaskRecord();
    record.text("host", host).text("executor", executor);
    clocks.writeTimes(record);
    long queued = clocks.runQueue + split[WaitClass.PYTHON_RUN_QUEUE.ordinal()];
    record.known("throttled_ns", Math.min(stops.nanos(), queued),
        timed && sampler == null && stops.areKnown());
    record.number("off_cpu_ns", clocks.offCpu).waits(split);
    record.number("samples", samples).number("off_samples", offSamples);
    record.known("coverage_pct", waits.coverage(), waits.coverage() < 100);
    clocks.writeCounts(record);
    held.end(clocks.wall);
    record.known("peak_held_bytes", held.peak(), held.known());
    record.known("mean_held_bytes", held.mean(clocks.wall), held.known());
    record.text("pool", context.getLocalProperty("spark.scheduler.pool"));
    record.text("sampler", sampler);
    record.known("failures", Failures.count(), Failures.count() > 0);
    record.text("lock_owners", owners.encode(lockScale(split)));
    if (profile != null && samples > 0) {
      long[] totals = new long[Profile.series(WaitClass.ALL[0]) + split.length];
      totals[Profile.CPU] = clocks.cpu;
      totals[Profile.RUN_QUEUE] = clocks.runQueue;
      System.arraycopy(split, 0, totals, Profile.series(WaitClass.ALL[0]), split.length);
      record.raw("profile", profile.encode(clocks.wall, totals, settings.profileBytes));
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
  private double[] byCounters() {
    double[] parts = new double[WaitClass.ALL.length];
    double left = take(parts, WaitClass.SHUFFLE_FETCH, clocks.offCpu,
        context.taskMetrics().shuffleReadMetrics().fetchWaitTime());
    left = take(parts, WaitClass.PAGE_FAULT, left,
        clocks.majorFaults > 0 ? clocks.diskDelayMs : 0);
    left = take(parts, WaitClass.MONITOR_BLOCKED, left, clocks.blockedMs);
    left = take(parts, WaitClass.GC_SAFEPOINT, left, clocks.gcMs);
    parts[WaitClass.OTHER.ordinal()] = left;
    return parts;
  }

  private static double take(double[] parts, WaitClass wait, double left, long ms) {
    double part = clamp(ms * 1e6, left);
    parts[wait.ordinal()] = part;
    return left - part;
  }
}
