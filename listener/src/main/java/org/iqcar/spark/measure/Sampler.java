package org.iqcar.spark.measure;

import java.io.IOException;
import java.lang.management.ThreadInfo;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.threads.StackClassifier;
import org.iqcar.spark.threads.WaitClass;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Samples every running task once a period. It reads the kernel's state of a thread first, and the
 * stack only of a thread that is asleep: reading a stack stops the thread and costs 100 times more.
 */
public final class Sampler implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(Sampler.class);
  private static final long IDLE_NANOS = 1_000_000_000L;
  /** Failures in a row after which the sampler gives up. */
  private static final int MOST_FAILURES = 50;

  private final Map<Long, TaskWatch> watches = new ConcurrentHashMap<>();
  private final Settings settings;
  private final Thread thread = new Thread(this, "iqcar-sampler");
  private final HeldMemory memory;
  private volatile boolean stopped;
  private long pausesMs;

  public Sampler(Settings settings) {
    this.settings = settings;
    memory = new HeldMemory(watches, settings.samplePeriodNanos);
    thread.setDaemon(true);
  }

  /** A task that was asleep when a round looked at it. */
  private static final class Asleep {
    final TaskWatch watch;
    final long now;
    final long cpu;
    final long runQueue;
    final boolean disk;
    final WaitClass before;

    /**
     * @param before what it was last seen waiting for, if it has not run since; else null
     */
    Asleep(TaskWatch watch, long now, long cpu, long runQueue, boolean disk, WaitClass before) {
      this.watch = watch;
      this.now = now;
      this.cpu = cpu;
      this.runQueue = runQueue;
      this.disk = disk;
      this.before = before;
    }
  }

  /** Starts the sampler's threads, unless the period is 0. */
  public void start() {
    if (settings.contention && TaskWatch.THREADS.isThreadContentionMonitoringSupported()) {
      TaskWatch.THREADS.setThreadContentionMonitoringEnabled(true);
    }
    if (settings.samplePeriodNanos > 0) {
      thread.start();
      memory.start();
    }
  }

  /** Why waits are not split by class: off (period 0) or dead (it gave up); else null. */
  public String trouble() {
    if (settings.samplePeriodNanos == 0) {
      return "off";
    }
    return thread.isAlive() ? null : "dead";
  }

  /** Samples a task from now on. */
  public void add(TaskWatch watch) {
    if (settings.samplePeriodNanos > 0) {
      boolean idle = watches.isEmpty();
      watches.put(watch.thread.getId(), watch);
      if (idle) {
        LockSupport.unpark(thread);
        memory.wake();
      }
    }
  }

  /** Stops sampling a task. */
  public void remove(TaskWatch watch) {
    watches.remove(watch.thread.getId(), watch);
  }

  /** Ends the sampler's threads. */
  public void stop() {
    stopped = true;
    LockSupport.unpark(thread);
    memory.stop();
  }

  @Override
  public void run() {
    int failures = 0;
    long next = System.nanoTime();
    while (!stopped) {
      try {
        Faults.at("sampler");
        if (watches.isEmpty()) {
          LockSupport.parkNanos(this, IDLE_NANOS);
          next = System.nanoTime();
        } else {
          next = Math.max(next, System.nanoTime()) + settings.samplePeriodNanos;
          sleepUntil(next);
          round();
        }
        failures = 0;
      } catch (Throwable failure) {
        Failures.note("a round of the sampler", failure);
        if (++failures >= MOST_FAILURES) {
          LOG.warn("iqcar: the sampler failed {} times in a row and stops; "
              + "records say \"sampler\":\"dead\"", failures);
          return;
        }
        LockSupport.parkNanos(settings.samplePeriodNanos);
      }
    }
  }

  private void sleepUntil(long time) {
    for (long left = time - System.nanoTime(); left > 0 && !stopped;
        left = time - System.nanoTime()) {
      LockSupport.parkNanos(this, left);
    }
  }

  private void round() {
    List<Asleep> asleep = new ArrayList<>();
    List<Asleep> blocked = new ArrayList<>();
    pausesMs = Pauses.totalMs();
    for (TaskWatch watch : watches.values()) {
      try {
        look(watch, asleep, blocked);
      } catch (IOException ended) {
        // The thread ended between two looks: its record is complete without this one.
        watches.remove(watch.thread.getId(), watch);
      }
    }
    if (!asleep.isEmpty()) {
      readStacks(asleep);
    }
    if (!blocked.isEmpty()) {
      readOwners(blocked);
    }
  }

  private void look(TaskWatch watch, List<Asleep> asleep, List<Asleep> blocked)
      throws IOException {
    boolean linux = watch.kernel != null;
    char state = 'S';
    long runQueue = 0;
    long cpu;
    if (linux) {
      state = watch.kernel.look();
    }
    if (watch.timed) {
      cpu = watch.kernel.seenCpuNanos();
      runQueue = watch.kernel.seenRunQueueNanos();
    } else {
      cpu = TaskWatch.THREADS.getThreadCpuTime(watch.thread.getId());
    }
    long now = System.nanoTime();
    if (cpu < 0) {
      throw new IOException("thread ended");
    }
    if (watch.python != null) {
      watch.python.look(now);
    }
    if (state == 'R' || !linux && watch.ranMostly(now, cpu)) {
      watch.ran(now, cpu, runQueue, pausesMs);
      return;
    }
    // A thread that has not run since the last look has the same stack: no need to stop it.
    WaitClass wait = watch.stillWaits(cpu);
    Asleep seen = new Asleep(watch, now, cpu, runQueue, state == 'D', wait);
    if (wait == null) {
      asleep.add(seen);
    } else if (wait.isLock()) {
      blocked.add(seen);
    } else {
      slept(seen, wait, LockOwners.UNKNOWN);
    }
  }

  private static long[] ids(List<Asleep> threads) {
    return threads.stream().mapToLong(seen -> seen.watch.thread.getId()).toArray();
  }

  /** Reads who holds a lock now: others may pass it on while a thread waits without running. */
  private void readOwners(List<Asleep> blocked) {
    // Without stacks, no thread is stopped.
    ThreadInfo[] infos = TaskWatch.THREADS.getThreadInfo(ids(blocked));
    for (int i = 0; i < infos.length; i++) {
      Asleep seen = blocked.get(i);
      slept(seen, seen.before, owner(infos[i], seen.before));
    }
  }

  /** The task that holds the lock that a thread waits for. */
  private long owner(ThreadInfo info, WaitClass wait) {
    TaskWatch holder = watches.get(LockOwners.threadOf(info, wait));
    return holder == null ? LockOwners.UNKNOWN : holder.context.taskAttemptId();
  }

  private void readStacks(List<Asleep> asleep) {
    ThreadInfo[] infos = TaskWatch.THREADS.getThreadInfo(ids(asleep), settings.sampleDepth);
    // Read again: a pause may have ended since the round began, and the stacks show its end.
    long pauses = Pauses.totalMs();
    for (int i = 0; i < infos.length; i++) {
      Asleep seen = asleep.get(i);
      TaskWatch watch = seen.watch;
      StackTraceElement[] stack =
          infos[i] == null ? new StackTraceElement[0] : infos[i].getStackTrace();
      Thread.State state = infos[i] == null ? Thread.State.TERMINATED : infos[i].getThreadState();
      if (watch.kernel == null && state == Thread.State.RUNNABLE
          && !StackClassifier.doesIo(stack)) {
        watch.ran(seen.now, seen.cpu, seen.runQueue, pausesMs);
        continue;
      }
      WaitClass wait = stack.length == 0 || wokeUp(watch, state, stack, seen.disk)
          ? null : StackClassifier.classify(
              state, stack, seen.disk, watch.pausedSince(pauses));
      slept(seen, wait, owner(infos[i], wait));
    }
  }

  private void slept(Asleep seen, WaitClass wait, long owner) {
    TaskWatch watch = seen.watch;
    if (wait == WaitClass.PYTHON_WORKER && watch.python != null) {
      watch.python.search(watch.context);
    }
    watch.slept(seen.now, seen.cpu, seen.runQueue, pausesMs, wait, owner);
  }

  /** Whether a thread woke up before its stack was read, so the stack does not show the wait. */
  private static boolean wokeUp(
      TaskWatch watch, Thread.State state, StackTraceElement[] stack, boolean disk) {
    if (watch.kernel == null || disk || state != Thread.State.RUNNABLE
        || StackClassifier.doesIo(stack)) {
      return false;
    }
    try {
      return watch.kernel.seenState() == 'R';
    } catch (IOException ended) {
      return true;
    }
  }
}
