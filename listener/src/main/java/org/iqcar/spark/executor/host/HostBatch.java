package org.iqcar.spark.executor.host;

import java.util.concurrent.TimeUnit;

/** Buffers samples for the driver, bounded: a slow driver costs samples, not memory. */
final class HostBatch {
  /** About 100 samples of a host with 16 cores; one batch is one event in the log. */
  static final int MOST_CHARS = 64 * 1024;

  private final StringBuilder lines = new StringBuilder();
  private long dropped;
  private long droppedInAll;
  private boolean full;
  private boolean ended;

  /** Adds a line, or drops it and counts it where the batch is full. */
  synchronized void add(String line) {
    if (lines.length() + line.length() >= MOST_CHARS) {
      full = true;
      dropped++;
      droppedInAll++;
    } else {
      lines.append(lines.length() == 0 ? "" : ",").append(line);
      full = lines.length() + line.length() >= MOST_CHARS;
    }
    if (full) {
      notifyAll();
    }
  }

  synchronized boolean full() {
    return full;
  }

  /** Ends {@link #await} now and from now on: no more lines come, or nobody wants them. */
  synchronized void end() {
    ended = true;
    notifyAll();
  }

  synchronized boolean ended() {
    return ended;
  }

  /** Waits at most the given ns for the batch to be full or ended. */
  synchronized void await(long nanos) throws InterruptedException {
    long end = System.nanoTime() + nanos;
    for (long left = nanos; left > 0 && !full && !ended;
        left = end - System.nanoTime()) {
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
  }

  /** Returns the lines, separated by commas, and empties the batch. */
  synchronized String take() {
    String taken = lines.toString();
    lines.setLength(0);
    full = false;
    return taken;
  }

  /** Number of lines dropped so far. */
  synchronized long droppedInAll() {
    return droppedInAll;
  }

  /** Number of lines dropped since the last call. */
  synchronized long takeDropped() {
    long count = dropped;
    dropped = 0;
    return count;
  }
}
