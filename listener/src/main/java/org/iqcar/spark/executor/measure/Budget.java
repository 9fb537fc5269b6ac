package org.iqcar.spark.executor.measure;

/**
 * Keeps the cost of sampling below a share of the time. Cost is the time for which the JVM was
 * stopped, plus the sampler's processor time divided by the number of processors.
 *
 * <p>Time brings allowance, and looks and stacks spend it. Stacks are read only while some is left,
 * so in any time t the cost is at most {@code share * (t + SAVED_NANOS)}, one reading and one round.
 * Looks are needed for every total, so they are not left out; their period grows until they take no
 * more than a part of the share. Guarded by the sampler's thread, except {@link #periodNanos}.
 */
final class Budget {
  /** Allowance is saved for so long, so a short application has the waits of its tasks split. */
  static final long SAVED_NANOS = 1_000_000_000L;
  /** Debt of a longer time is forgiven: a suspended machine makes a reading look endless. */
  static final long MOST_DEBT_NANOS = 10_000_000_000L;
  /** Part of the share that looks may take; stacks take the rest. */
  static final double OF_LOOKS = 0.5;
  /** Weight of the last round in the mean cost of a round's looks. */
  private static final double OF_LAST = 0.1;
  /** The period grows no further: a thousand tasks on two processors need no more. */
  static final long LONGEST_NANOS = 1_000_000_000L;

  private final double share;
  private final long wantedNanos;
  private double allowance;
  private double lookNanos;
  private volatile long periodNanos;

  /**
   * A budget of which nothing is spent.
   *
   * @param share the most that sampling may cost, as part of the time
   * @param wantedNanos the period that the settings ask for
   */
  Budget(double share, long wantedNanos) {
    this.share = share;
    this.wantedNanos = wantedNanos;
    periodNanos = wantedNanos;
    allowance = share * SAVED_NANOS;
  }

  /** So much time has passed. */
  void passed(long nanos) {
    allowance = Math.min(share * SAVED_NANOS, allowance + share * nanos);
  }

  /**
   * Whether stacks may be read now.
   *
   * @param lasting whether a wait is among them that began before the last look: it can take half
   *     of what is saved for itself, because one stack tells of all its time
   */
  boolean allows(boolean lasting) {
    return allowance > (lasting ? 0 : share * SAVED_NANOS / 2);
  }

  /** Reading stacks cost so much. */
  void spend(double nanos) {
    allowance = Math.max(-share * MOST_DEBT_NANOS, allowance - nanos);
  }

  /** The looks of one round cost so much. */
  void looked(double nanos) {
    spend(nanos);
    lookNanos = lookNanos == 0 ? nanos : lookNanos + OF_LAST * (nanos - lookNanos);
    periodNanos = Math.max(wantedNanos,
        Math.min(LONGEST_NANOS, (long) (lookNanos / (share * OF_LOOKS))));
  }

  /** Time from one round to the next. */
  long periodNanos() {
    return periodNanos;
  }

  /** How many looks of the wanted period one look stands for. */
  double stands() {
    return wantedNanos == 0 ? 1 : (double) periodNanos / wantedNanos;
  }
}
