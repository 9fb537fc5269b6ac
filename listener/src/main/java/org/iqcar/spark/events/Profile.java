package org.iqcar.spark.events;

import java.util.Arrays;

/**
 * Collects how a task spent its time, interval by interval, and writes it as JSON. The number of
 * intervals is bounded: when a task outgrows them, pairs are merged and their width doubles.
 *
 * <p>While the task runs, the amounts are sampled; {@link #encode} scales each series of time to
 * its exact total. Held memory is a level instead: its series is the mean of each interval.
 */
public final class Profile {
  /** Series of the time on the processor, in ns. */
  public static final int CPU = 0;
  /** Series of the wait on the run queue, in ns. */
  public static final int RUN_QUEUE = 1;
  private static final int FIRST_WAIT = 2;
  private static final int TIMES = FIRST_WAIT + WaitClass.ALL.length;
  /** Series of the memory held, in bytes times ns. */
  public static final int HELD = TIMES;
  private static final long NANOS_PER_MS = 1_000_000L;
  private static final double BYTES_PER_KIB = 1024;

  private final int most;
  private final double[][] amounts = new double[TIMES + 1][];
  private long width;

  /**
   * A profile without amounts.
   *
   * @param widthNanos width of an interval at first, in ns; whole milliseconds
   * @param mostBuckets most intervals
   */
  public Profile(long widthNanos, int mostBuckets) {
    width = widthNanos;
    most = mostBuckets;
  }

  /** Series of a class of waiting, in ns. */
  public static int series(WaitClass wait) {
    return FIRST_WAIT + wait.ordinal();
  }

  /** Spreads an amount evenly between two times, in ns after the task's start. */
  public void add(int series, long from, long to, double amount) {
    if (amount <= 0 || to <= from) {
      return;
    }
    while (to > width * most) {
      widen();
    }
    if (amounts[series] == null) {
      amounts[series] = new double[most];
    }
    int last = (int) ((to - 1) / width);
    for (int i = (int) (from / width); i <= last; i++) {
      long overlap = Math.min(to, (i + 1) * width) - Math.max(from, i * width);
      amounts[series][i] += amount * overlap / (to - from);
    }
  }

  private void widen() {
    for (double[] series : amounts) {
      if (series != null) {
        for (int i = 0; i < most; i++) {
          int left = 2 * i;
          series[i] = (left < most ? series[left] : 0) + (left + 1 < most ? series[left + 1] : 0);
        }
      }
    }
    width *= 2;
  }

  /**
   * The profile as JSON of at most {@code mostBytes}, or null for a task of under two intervals.
   *
   * @param wall the task's duration, in ns
   * @param totals exact total of each series of time, in ns, which its intervals sum to
   */
  public String encode(long wall, long[] totals, int mostBytes) {
    while (wall > width * most) {
      widen();
    }
    while (wall >= 2 * width) {
      String json = json(wall, totals);
      if (json.length() <= mostBytes) {
        return json;
      }
      widen();
    }
    return null;
  }

  private String json(long wall, long[] totals) {
    int buckets = (int) ((wall + width - 1) / width);
    StringBuilder out = new StringBuilder(256);
    out.append("{\"bucket_ms\":").append(width / NANOS_PER_MS);
    out.append(",\"buckets\":").append(buckets);
    for (int s = 0; s < TIMES; s++) {
      if (totals[s] >= NANOS_PER_MS) {
        String name = s == CPU ? "cpu" : s == RUN_QUEUE ? "run_queue"
            : WaitClass.ALL[s - FIRST_WAIT].label;
        out.append(",\"").append(name).append("\":\"");
        runs(millis(amounts[s], buckets, wall, totals[s]), out);
        out.append('"');
      }
    }
    if (amounts[HELD] != null) {
      out.append(",\"held_kib\":\"");
      runs(heldKib(buckets, wall), out);
      out.append('"');
    }
    return out.append('}').toString();
  }

  /** Mean of each interval in KiB, over its own length: the last one may be cut short. */
  private long[] heldKib(int buckets, long wall) {
    long[] kib = new long[buckets];
    for (int i = 0; i < buckets; i++) {
      long nanos = Math.min(wall, (i + 1) * width) - i * width;
      kib[i] = Math.round(amounts[HELD][i] / nanos / BYTES_PER_KIB);
    }
    return kib;
  }

  /** Whole ms of each interval; rounding is carried over, so they sum to the total's whole ms. */
  private long[] millis(double[] shape, int buckets, long wall, long total) {
    double sum = shape == null ? 0 : Arrays.stream(shape, 0, buckets).sum();
    long[] ms = new long[buckets];
    double gone = 0;
    long before = 0;
    long all = total / NANOS_PER_MS;
    for (int i = 0; i < buckets; i++) {
      // A series without a sample has no shape: it is spread evenly.
      gone += sum > 0 ? shape[i] / sum
          : (double) (Math.min(wall, (i + 1) * width) - i * width) / wall;
      long until = i == buckets - 1 ? all : Math.min(all, Math.round(gone * all));
      ms[i] = until - before;
      before = until;
    }
    return ms;
  }

  /** Appends run lengths: 250*3,12 is 250,250,250,12. Zeros at the end are left out. */
  static void runs(long[] values, StringBuilder out) {
    int end = values.length;
    while (end > 0 && values[end - 1] == 0) {
      end--;
    }
    for (int i = 0; i < end;) {
      int next = i + 1;
      while (next < end && values[next] == values[i]) {
        next++;
      }
      out.append(i == 0 ? "" : ",").append(values[i]);
      if (next - i > 1) {
        out.append('*').append(next - i);
      }
      i = next;
    }
  }
}
