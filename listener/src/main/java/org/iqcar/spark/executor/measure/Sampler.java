package org.iqcar.spark.executor.measure;

import java.io.IOException;
import java.lang.management.ThreadInfo;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.TaskContext;
import org.iqcar.spark.events.PluginMetrics;
import org.iqcar.spark.events.WaitClass;
import org.iqcar.spark.executor.threads.StackClassifier;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.settings.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Samples every running task once a period. It reads the kernel's state of a thread first, and the
 * stack only of a thread that is asleep, while the {@link Budget} lasts: reading a stack stops the
 * whole JVM. Threads take turns, so those whose stacks are left out differ from round to round.
 */
public final class Sampler {
  private static final Logger LOG = LoggerFactory.getLogger(Sampler.class);
  private static final long IDLE_NANOS = 1_000_000_000L;
  /** Failures in a row after which the sampler gives up. */
  private static final int MOST_FAILURES = 50;
  /** Stacks read at once: more would make one stop longer than some 0.7 ms. */
  static final int MOST_STACKS = 32;

  final Map<Long, TaskWatch> watches = new ConcurrentHashMap<>();
  private final Settings settings;
  private final Thread thread = Safely.thread("iqcar-sampler", this::run);
  private final HeldMemory memory;
  private final Throttling throttling;
  final Budget budget;
  /** Processor time of its threads, in ns. Its own thread adds to these three; anybody reads. */
  final LongAdder ownCpu = new LongAdder();
  /** For how long the JVM was stopped to read stacks, at most, in ns. */
  final LongAdder stoppedTime = new LongAdder();
  /** How long it has run, up to its last look, in ns. */
  final LongAdder elapsed = new LongAdder();
  private final Probe probe;
  /** Asked once: in a container, each answer opens files of its control group. */
  private final int processors;
  private volatile boolean stopped;
  private long pausesMs;
  private long roundNanos;
  private long roundCpu;
  /** The thread whose stack was read last: the next turn is that of the next higher id. */
  private long lastRead;

  public Sampler(Settings settings) {
    this(settings, new Probe(settings));
  }

  Sampler(Settings settings, Probe probe) {
    this.settings = settings;
    this.probe = probe;
    budget = new Budget(settings.overhead, settings.samplePeriodNanos);
    processors = probe.processors();
    memory = new HeldMemory(watches, budget::periodNanos);
    throttling = new Throttling(settings.proc);
  }

  /** Starts the sampler's threads, unless the period is 0. */
  public void start() {
    if (settings.contention && TaskClocks.THREADS.isThreadContentionMonitoringSupported()) {
      TaskClocks.THREADS.setThreadContentionMonitoringEnabled(true);
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

  /** Tells what it has cost so far. */
  public void gauges(PluginMetrics metrics) {
    metrics.seconds("sampler.cpu_seconds", () -> ownCpu.sum() / 1e9);
    metrics.seconds("sampler.stopped_seconds", () -> stoppedTime.sum() / 1e9);
    metrics.seconds("sampler.elapsed_seconds", () -> elapsed.sum() / 1e9);
    metrics.seconds("sampler.budget_used", this::budgetUsed);
    metrics.seconds("sampler.period_seconds", () -> budget.periodNanos() / 1e9);
  }

  /** The part that is spent of what the settings allow for the time so far: 1 is all. */
  double budgetUsed() {
    double allowed = settings.overhead * elapsed.sum();
    return allowed > 0 ? (stoppedTime.sum() + (double) ownCpu.sum() / processors) / allowed : 0;
  }

  /** Starts to watch the task of the calling thread; {@link #add} samples it. */
  public TaskWatch watch(TaskContext context) throws IOException {
    return new TaskWatch(context, settings, throttling);
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
    throttling.close();
  }

  /** Samples until it is stopped, or fails too often; never throws. */
  void run() {
    int failures = 0;
    begin();
    for (long next = System.nanoTime(); !stopped; next = Math.max(next, System.nanoTime())) {
      if (watches.isEmpty()) {
        LockSupport.parkNanos(this, IDLE_NANOS);
        continue;
      }
      next += budget.periodNanos();
      sleepUntil(next);
      if (Safely.run("a round of the sampler", this::round)) {
        failures = 0;
      } else if (++failures >= MOST_FAILURES) {
        LOG.warn("iqcar: the sampler failed {} times in a row and stops; "
            + "records say \"sampler\":\"dead\"", failures);
        return;
      }
    }
  }

  private void sleepUntil(long time) {
    for (long left = time - System.nanoTime(); left > 0 && !stopped;
        left = time - System.nanoTime()) {
      LockSupport.parkNanos(this, left);
    }
  }

  /** Starts the account of what sampling costs. */
  void begin() {
    roundNanos = probe.nanos();
    roundCpu = probe.cpuNanos(memory.thread);
  }

  /** Looks at every task once. */
  void round() {
    long now = probe.nanos();
    budget.passed(now - roundNanos);
    elapsed.add(now - roundNanos);
    roundNanos = now;
    List<Look> asleep = new ArrayList<>();
    List<Look> blocked = new ArrayList<>();
    pausesMs = Probe.pausesMs();
    for (TaskWatch watch : watches.values()) {
      try {
        look(watch, asleep, blocked);
      } catch (IOException ended) {
        // The thread ended between two looks: its record is complete without this one.
        watches.remove(watch.thread.getId(), watch);
      }
    }
    throttling.divide(watches.values(), now);
    if (!blocked.isEmpty()) {
      readOwners(blocked);
    }
    budget.looked(cpuSince());
    readStacks(asleep);
    budget.spend(cpuSince());
  }

  /** What the processor time since it was last asked costs all threads, in ns. */
  private double cpuSince() {
    long before = roundCpu;
    roundCpu = probe.cpuNanos(memory.thread);
    ownCpu.add(roundCpu - before);
    return (double) (roundCpu - before) / processors;
  }

  private void look(TaskWatch watch, List<Look> asleep, List<Look> blocked) throws IOException {
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
      cpu = TaskClocks.THREADS.getThreadCpuTime(watch.thread.getId());
    }
    long now = probe.nanos();
    if (cpu < 0) {
      throw new IOException("thread ended");
    }
    if (watch.python != null) {
      watch.python.look(now);
    }
    Look look = new Look(watch, new long[] {now, cpu, runQueue}, pausesMs, budget.stands(),
        state == 'D');
    if (state == 'R' || !linux && watch.ranMostly(now, cpu)) {
      watch.seenRunnable(look);
      return;
    }
    // A thread that has not run since the last look has the same stack: no need to read it.
    WaitClass wait = look.before();
    boolean unknown = wait == null || wait == WaitClass.PAGE_FAULT;
    if (look.disk && unknown && watch.kernel.seenFault()) {
      watch.faulted(look);
    } else if (wait == null) {
      asleep.add(look);
    } else if (wait.isLock()) {
      blocked.add(look);
    } else {
      slept(look, wait, LockOwners.UNKNOWN);
    }
  }

  private static long[] ids(List<Look> looks) {
    return looks.stream().mapToLong(Look::threadId).toArray();
  }

  /** Reads who holds a lock now: others may pass it on while a thread waits without running. */
  private void readOwners(List<Look> blocked) {
    // Without stacks, no thread is stopped.
    ThreadInfo[] infos = TaskClocks.THREADS.getThreadInfo(ids(blocked));
    for (int i = 0; i < infos.length; i++) {
      WaitClass wait = blocked.get(i).before();
      slept(blocked.get(i), wait, owner(infos[i], wait));
    }
  }

  /** The task that holds the lock that a thread waits for. */
  private long owner(ThreadInfo info, WaitClass wait) {
    TaskWatch holder = watches.get(LockOwners.threadOf(info, wait));
    return holder == null ? LockOwners.UNKNOWN : holder.context.taskAttemptId();
  }

  /** Reads as many stacks as the budget allows, in turn. */
  private void readStacks(List<Look> asleep) {
    asleep.sort(Comparator.<Look>comparingInt(look -> look.threadId() > lastRead ? 0 : 1)
        .thenComparingLong(Look::threadId));
    int read = 0;
    boolean lasting = asleep.stream().anyMatch(Look::lasting);
    while (read < asleep.size() && budget.allows(lasting)) {
      List<Look> turn = asleep.subList(read, Math.min(read + MOST_STACKS, asleep.size()));
      ThreadInfo[] infos = probe.stacks(ids(turn));
      budget.spend(probe.stoppedNanos());
      stoppedTime.add(probe.stoppedNanos());
      // Read again: a pause may have ended since the round began, and the stacks show its end.
      long pauses = Probe.pausesMs();
      for (int i = 0; i < infos.length; i++) {
        classify(turn.get(i), infos[i], pauses);
      }
      read += turn.size();
      lastRead = turn.get(turn.size() - 1).threadId();
    }
    for (Look look : asleep.subList(read, asleep.size())) {
      look.watch.unread(look);
    }
  }

  private void classify(Look look, ThreadInfo info, long pauses) {
    TaskWatch watch = look.watch;
    StackTraceElement[] stack = info == null ? new StackTraceElement[0] : info.getStackTrace();
    Thread.State state = info == null ? Thread.State.TERMINATED : info.getThreadState();
    if (watch.kernel == null && state == Thread.State.RUNNABLE && !StackClassifier.doesIo(stack)) {
      watch.seenRunnable(look);
      return;
    }
    WaitClass wait = stack.length == 0 || wokeUp(watch, state, stack, look.disk)
        ? null : StackClassifier.classify(
            state, stack, look.disk, watch.pausedSince(pauses));
    watch.asksStore |= wait == WaitClass.OBJECT_STORE;
    if (wait == WaitClass.IO_READ && watch.asksStore && StackClassifier.awaitsParts(stack)) {
      wait = WaitClass.OBJECT_STORE;
    }
    slept(look, wait, owner(info, wait));
  }

  private void slept(Look look, WaitClass wait, long owner) {
    TaskWatch watch = look.watch;
    if (wait == WaitClass.PYTHON_WORKER && watch.python != null) {
      watch.python.search(watch.context);
    }
    watch.slept(look, wait, owner);
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
