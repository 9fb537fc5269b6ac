package org.iqcar.spark.host;

import java.util.concurrent.TimeUnit;

/** Samples on their way to the driver: bounded, so that a slow driver costs samples, not memory. */
final class HostBatch {
  /** About 100 samples of a host with 16 cores; one batch is one event in the log. */
  static final int MOST_CHARS = 64 * 1024;

  private final StringBuilder lines = new StringBuilder();
  private long dropped;
  private boolean full;
  private boolean ended;
  private boolean woken;

  synchronized void add(String line) {
    if (lines.length() + line.length() >= MOST_CHARS) {
      full = true;
      dropped++;
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

  /** No line will come any more. */
  synchronized void end() {
    ended = true;
    notifyAll();
  }

  synchronized boolean ended() {
    return ended;
  }

  synchronized void wake() {
    woken = true;
    notifyAll();
  }

  /** Waits until the batch is full, nothing more will come, or the time is over. */
  synchronized void await(long nanos) throws InterruptedException {
    long end = System.nanoTime() + nanos;
    for (long left = nanos; left > 0 && !full && !ended && !woken;
        left = end - System.nanoTime()) {
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
  }

  /** The lines so far, with commas between; the batch is empty afterwards. */
  synchronized String take() {
    String taken = lines.toString();
    lines.setLength(0);
    full = false;
    return taken;
  }

  /** Lines left out since the last call. */
  synchronized long takeDropped() {
    long count = dropped;
    dropped = 0;
    return count;
  }
}
