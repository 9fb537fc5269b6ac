package org.iqcar.spark.executor.measure;

import org.iqcar.spark.events.Profile;

/** Computes from readings how much execution memory a task held. Guarded by the watch's lock. */
final class HeldBytes {
  private final Profile profile;
  private int readings;
  private long peak;
  private long last;
  private long seen;
  private double byteNanos;

  /**
   * @param profile receives the memory held in each interval; null for none
   */
  HeldBytes(Profile profile) {
    this.profile = profile;
  }

  /** A reading of {@code bytes}, in ns after the task's start; it stands for the time before. */
  void read(long now, long bytes) {
    readings++;
    peak = Math.max(peak, bytes);
    last = bytes;
    hold(now);
  }

  /** The task ended: since the last reading it held what that reading saw. */
  void end(long now) {
    hold(now);
  }

  private void hold(long now) {
    if (now > seen) {
      byteNanos += (double) last * (now - seen);
      if (profile != null) {
        profile.add(Profile.HELD, seen, now, (double) last * (now - seen));
      }
      seen = now;
    }
  }

  /** Whether there was any reading: a short task may end before the first. */
  boolean known() {
    return readings > 0;
  }

  /** The largest reading, in bytes. */
  long peak() {
    return peak;
  }

  /** Bytes held on average over the task's duration, which is in ns. */
  long mean(long wall) {
    return wall > 0 ? Math.min(peak, Math.round(byteNanos / wall)) : peak;
  }
}
