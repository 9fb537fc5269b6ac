package org.iqcar.spark.measure;

import java.io.IOException;
import java.lang.management.ThreadInfo;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.TaskContext;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.safety.OwnThread;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.threads.StackClassifier;
import org.iqcar.spark.threads.WaitClass;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Samples every running task once a period. It reads the kernel's state of a thread first, and the
 * stack only of a thread that is asleep, while the {@link Budget} lasts: reading a stack stops the
 * whole JVM. Threads take turns, so those whose stacks are left out differ from round to round.
 */
public final class Sampler implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(Sampler.class);
  private static final long IDLE_NANOS = 1_000_000_000L;
  /** Failures in a row after which the sampler gives up. */
  private static final int MOST_FAILURES = 50;
  /** Stacks read at once: more would make one stop longer than some 0.7 ms. */
  static final int MOST_STACKS = 32;

  final Map<Long, TaskWatch> watches = new ConcurrentHashMap<>();
  private final Settings settings;
  private final Thread thread = OwnThread.of("iqcar-sampler", this);
  private final HeldMemory memory;
  private final Throttling throttling;
  final Budget budget;
  private final SamplerCost cost;
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
    cost = new SamplerCost(settings.overhead, processors);
    memory = new HeldMemory(watches, budget::periodNanos);
    throttling = new Throttling(settings.proc);
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

  /** What it has cost so far. */
  public SamplerCost cost() {
    return cost;
  }

  /** Time between two looks at a task now, in s. */
  public double periodSeconds() {
    return budget.periodNanos() / 1e9;
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

  @Override
  public void run() {
    int failures = 0;
    long next = System.nanoTime();
    begin();
    while (!stopped) {
      try {
        Faults.at("sampler");
        if (watches.isEmpty()) {
          LockSupport.parkNanos(this, IDLE_NANOS);
          next = System.nanoTime();
        } else {
          next = Math.max(next, System.nanoTime()) + budget.periodNanos();
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

  /** Starts the account of what sampling costs. */
  void begin() {
    roundNanos = probe.nanos();
    roundCpu = probe.cpuNanos(memory.thread);
  }

  /** Looks at every task once. */
  void round() {
    long now = probe.nanos();
    budget.passed(now - roundNanos);
    cost.elapsed.add(now - roundNanos);
    roundNanos = now;
    List<Look> asleep = new ArrayList<>();
    List<Look> blocked = new ArrayList<>();
    pausesMs = Pauses.totalMs();
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
    budget.read(cpuSince());
  }

  /** What the processor time since it was last asked costs all threads, in ns. */
  private double cpuSince() {
    long before = roundCpu;
    roundCpu = probe.cpuNanos(memory.thread);
    cost.cpu.add(roundCpu - before);
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
      cpu = TaskWatch.THREADS.getThreadCpuTime(watch.thread.getId());
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
      watch.ran(look);
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
    ThreadInfo[] infos = TaskWatch.THREADS.getThreadInfo(ids(blocked));
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
      budget.read(probe.stoppedNanos());
      cost.stopped.add(probe.stoppedNanos());
      // Read again: a pause may have ended since the round began, and the stacks show its end.
      long pauses = Pauses.totalMs();
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
      watch.ran(look);
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
