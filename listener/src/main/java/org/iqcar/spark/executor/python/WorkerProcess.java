package org.iqcar.spark.executor.python;

import java.io.Closeable;
import java.io.IOException;
import org.iqcar.spark.executor.threads.ProcFile;
import org.iqcar.spark.executor.threads.RunQueueWaits;

/** Reads what one Python worker process did since the last look. */
final class WorkerProcess implements Closeable {
  /** 10 ms: Linux counts process times in ticks of USER_HZ = 100 on every architecture in use. */
  private static final long TICK_NANOS = 10_000_000L;
  private static final int UTIME = 10;
  private static final int STIME = 11;

  final long pid;
  private final ProcFile stat;
  private final ProcFile schedstat;
  /** Null where the kernel hides the file. */
  private final ProcFile call;
  private final long[] times = new long[2];
  private final long[] fields = new long[12];
  private final RunQueueWaits waits;
  private long seenNanos;
  private long seenCpu;
  private long seenRunQueue;
  private long seenMainCpu;
  private boolean runnable;
  /** Waits on the run queue that the kernel has counted and no look has, in ns; below 0: reverse. */
  private double uncounted;

  /** Shares of the time between the last two looks, each in 0..1. */
  double cpu;
  double runQueue;
  double io;
  double fault;

  WorkerProcess(String proc, long pid) throws IOException {
    this.pid = pid;
    stat = new ProcFile(proc + "/" + pid + "/stat", 512);
    call = ProcFile.orNull(proc + "/" + pid + "/syscall", 16);
    ProcFile opened = null;
    try {
      opened = new ProcFile(proc + "/" + pid + "/schedstat", 96);
      schedstat = opened;
      long now = System.nanoTime();
      schedstat.numbers(times);
      waits = new RunQueueWaits(times[1], now);
      seenRunQueue = times[1];
      look(now);
      uncounted = 0;
    } catch (IOException | RuntimeException failure) {
      ProcFile.closeAll(stat, opened, call);
      throw failure;
    }
  }

  /** Reads the process's counters; now is of {@link System#nanoTime}. */
  void look(long now) throws IOException {
    long before = System.nanoTime();
    char state = stat.stateAndNumbers(fields);
    schedstat.numbers(times);
    long counted = waits.total(times[1], state == 'R', before, System.nanoTime());
    // schedstat counts the main thread only, in ns; stat counts all threads, in ticks. The larger
    // of the two never counts the same time twice.
    long all = Math.max(times[0], (fields[UTIME] + fields[STIME]) * TICK_NANOS);
    double elapsed = Math.max(1, now - seenNanos);
    double onCpu = clamp(all - seenCpu, elapsed);
    // The kernel adds a wait on the run queue when it ends. So one that goes on is counted while it
    // goes on, where nothing else happens between two looks, and set off when the kernel adds it.
    // A process that has just become runnable may have been asleep until now: that counts later.
    uncounted += counted - seenRunQueue;
    boolean waitsOn = runnable && state == 'R' && times[0] == seenMainCpu
        && counted == seenRunQueue;
    double waited = waitsOn ? elapsed - onCpu : clamp(uncounted, elapsed - onCpu);
    uncounted -= waited;
    runnable = state == 'R';
    seenMainCpu = times[0];
    cpu = onCpu / elapsed;
    runQueue = waited / elapsed;
    double asleep = state == 'D' ? 1 - cpu - runQueue : 0;
    fault = asleep > 0 && inFault() ? asleep : 0;
    io = asleep - fault;
    seenNanos = now;
    seenCpu = Math.max(seenCpu, all);
    seenRunQueue = counted;
  }

  private boolean inFault() {
    try {
      return call != null && call.isOutsideCall();
    } catch (IOException hidden) {
      // Only who may trace the worker may read this.
      return false;
    }
  }

  private static double clamp(double value, double most) {
    return Math.max(0, Math.min(value, most));
  }

  @Override
  public void close() {
    ProcFile.closeAll(stat, schedstat, call);
  }
}
