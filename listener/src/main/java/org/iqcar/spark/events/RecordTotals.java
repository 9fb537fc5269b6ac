package org.iqcar.spark.events;

import java.util.concurrent.atomic.LongAdder;

/**
 * Adds up the records of tasks, in ns. Any thread may add and read; neither waits.
 *
 * <p>It finds a number by its quoted name: quotes in a record's texts are escaped, so no pool's name
 * looks like one.
 */
public final class RecordTotals {
  /** More digits than 18 fit no long. */
  private static final int MOST_DIGITS = 18;
  private static final String[] NAMES = {
    "wall_ns", "cpu_ns", "run_queue_ns", "throttled_ns", "off_cpu_ns", "coverage_pct"};

  final LongAdder records = new LongAdder();
  final LongAdder missing = new LongAdder();
  final LongAdder wall = new LongAdder();
  final LongAdder cpu = new LongAdder();
  private final LongAdder runQueue = new LongAdder();
  private final LongAdder timed = new LongAdder();
  private final LongAdder throttled = new LongAdder();
  private final LongAdder limited = new LongAdder();
  final LongAdder offCpu = new LongAdder();
  /** The part of that whose looks were taken. */
  final LongAdder covered = new LongAdder();
  /** By class; of Python's run queue but for a CPU limit's stops. */
  final LongAdder[] waits = new LongAdder[WaitClass.ALL.length];

  /** Makes empty totals. */
  public RecordTotals() {
    for (int i = 0; i < waits.length; i++) {
      waits[i] = new LongAdder();
    }
  }

  /** A task has this record. */
  public void add(String record) {
    add(numbers(record));
  }

  /** The numbers of a record that are added up, those of {@link #NAMES} first; −1 where it has none. */
  static long[] numbers(String record) {
    long[] found = new long[NAMES.length + WaitClass.ALL.length];
    for (int i = 0; i < NAMES.length; i++) {
      found[i] = number(record, NAMES[i]);
    }
    // The profile has series of the same names: it comes after the waits.
    int begin = record.indexOf("\"waits_ns\":{");
    int end = begin < 0 ? -1 : record.indexOf('}', begin);
    String part = end > begin ? record.substring(begin, end) : "";
    for (WaitClass wait : WaitClass.ALL) {
      found[NAMES.length + wait.ordinal()] = number(part, wait.label);
    }
    return found;
  }

  /** A task has a record of these numbers. */
  void add(long[] numbers) {
    records.increment();
    wall.add(Math.max(0, numbers[0]));
    cpu.add(Math.max(0, numbers[1]));
    long off = Math.max(0, numbers[4]);
    offCpu.add(off);
    covered.add(numbers[5] < 0 ? off : off / 100 * numbers[5]);
    for (int i = 0; i < waits.length; i++) {
      waits[i].add(Math.max(0, numbers[NAMES.length + i]));
    }
    addQueues(numbers[2], numbers[3],
        Math.max(0, numbers[NAMES.length + WaitClass.PYTHON_RUN_QUEUE.ordinal()]));
  }

  /** A CPU limit's stops are a part of both run queues: they are taken from the task's own first. */
  private void addQueues(long queued, long stopped, long ofPython) {
    long own = Math.min(Math.max(0, stopped), Math.max(0, queued));
    long python = Math.min(Math.max(0, stopped) - own, ofPython);
    if (queued >= 0) {
      timed.increment();
      runQueue.add(queued - own);
    }
    if (stopped >= 0) {
      limited.increment();
      throttled.add(own + python);
      waits[WaitClass.PYTHON_RUN_QUEUE.ordinal()].add(-python);
    }
  }

  /** A task that should have a record has none: the plugin failed for it. */
  public void missed() {
    missing.increment();
  }

  /** The whole number of a name, or −1 where there is none. */
  private static long number(String record, String name) {
    String key = '"' + name + "\":";
    int begin = record.indexOf(key) + key.length();
    int end = begin;
    while (begin >= key.length() && end < record.length() && end - begin < MOST_DIGITS
        && record.charAt(end) >= '0' && record.charAt(end) <= '9') {
      end++;
    }
    return begin < key.length() || end == begin ? -1 : Long.parseLong(record.substring(begin, end));
  }

  /** Tells them. */
  public void gauges(PluginMetrics metrics) {
    metrics.count("tasks", records::sum);
    metrics.count("tasks_without_record", missing::sum);
    metrics.seconds("task_seconds", () -> wall.sum() / 1e9);
    metrics.seconds("cpu_seconds", () -> cpu.sum() / 1e9);
    metrics.seconds("off_cpu_seconds", () -> offCpu.sum() / 1e9);
    metrics.seconds("covered_seconds", () -> covered.sum() / 1e9);
    metrics.seconds("waited_seconds.run_queue", this::runQueueSeconds);
    metrics.seconds("waited_seconds.throttled", this::throttledSeconds);
    for (WaitClass wait : WaitClass.ALL) {
      metrics.seconds("waited_seconds." + wait.label, () -> waits[wait.ordinal()].sum() / 1e9);
    }
  }

  /** Wait on the run queue but for a CPU limit's stops, in s; NaN where no record knows it. */
  double runQueueSeconds() {
    return seconds(runQueue, timed);
  }

  /** Stops by a CPU limit, in s; NaN where no record knows them. */
  double throttledSeconds() {
    return seconds(throttled, limited);
  }

  private double seconds(LongAdder nanos, LongAdder known) {
    return known.sum() == 0 && records.sum() > 0 ? Double.NaN : nanos.sum() / 1e9;
  }
}
