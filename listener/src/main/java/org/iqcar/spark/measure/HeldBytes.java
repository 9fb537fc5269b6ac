package org.iqcar.spark.measure;

import org.iqcar.spark.eventlog.Profile;

/** Execution memory that one task held, from readings of it; guarded by its watch's lock. */
final class HeldBytes {
  private final Profile profile;
  private int readings;
  private long peak;
  private long last;
  private long seen;
  private double byteNanos;

  /**
   * @param profile where each interval's part goes; null for none
   */
  HeldBytes(Profile profile) {
    this.profile = profile;
  }

  /** So many bytes were held at that time after the task's start, and since the last reading. */
  void read(long now, long bytes) {
    readings++;
    peak = Math.max(peak, bytes);
    last = bytes;
    hold(now);
  }

  /** The task ended: until now it held what the last reading saw. */
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

  /** Bytes held at most, as far as readings saw. */
  long peak() {
    return peak;
  }

  /** Bytes held on average over the task's life. */
  long mean(long wall) {
    return wall > 0 ? Math.min(peak, Math.round(byteNanos / wall)) : peak;
  }
}
