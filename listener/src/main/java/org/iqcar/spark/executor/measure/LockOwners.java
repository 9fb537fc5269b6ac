package org.iqcar.spark.executor.measure;

import java.lang.management.ThreadInfo;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.iqcar.spark.events.WaitClass;

/**
 * Which tasks held the locks that one task waited for, and how long. Guarded by the watch's lock.
 */
final class LockOwners {
  /** Tasks in a record: they bound its size. */
  static final int MOST_WRITTEN = 4;
  /** Tasks remembered while the waiting one runs. */
  static final int MOST_KEPT = 16;
  /** What {@link #threadOf} and {@link Sampler} say where nobody is known. */
  static final long UNKNOWN = -1;

  private final Map<Long, Double> nanos = new HashMap<>();

  /**
   * The id of the thread that holds the lock that another one waits for.
   *
   * @param info the waiting thread, with or without its stack; null if it ended
   * @param wait what it waits for
   */
  static long threadOf(ThreadInfo info, WaitClass wait) {
    // In Object.wait, the JVM names who is in the monitor now: that thread may never notify.
    boolean blocked = info != null && wait != null && wait.isLock()
        && (info.getThreadState() == Thread.State.BLOCKED || wait == WaitClass.MONITOR_BLOCKED);
    return blocked ? info.getLockOwnerId() : UNKNOWN;
  }

  /** A task held the lock for so long; of too many tasks, the one with the least time goes. */
  void held(long task, double more) {
    if (nanos.size() >= MOST_KEPT && !nanos.containsKey(task)) {
      nanos.remove(
          Collections.min(nanos.entrySet(), Map.Entry.comparingByValue()).getKey());
    }
    nanos.merge(task, more, Double::sum);
  }

  /** Time in which an owner was seen, in ns. */
  double totalNanos() {
    return nanos.values().stream().mapToDouble(Double::doubleValue).sum();
  }

  /**
   * The tasks that held locks longest as {@code task:ms,task:ms}, or null if there are none.
   *
   * @param scale what one ns that was sampled stands for, in ns
   */
  String encode(double scale) {
    List<Map.Entry<Long, Double>> largest = new ArrayList<>(nanos.entrySet());
    largest.sort(Map.Entry.<Long, Double>comparingByValue().reversed());
    StringBuilder text = new StringBuilder();
    for (Map.Entry<Long, Double> one : largest.subList(0, Math.min(MOST_WRITTEN, largest.size()))) {
      long ms = (long) (one.getValue() * scale / 1e6);
      if (ms > 0) {
        text.append(text.length() == 0 ? "" : ",").append(one.getKey()).append(':').append(ms);
      }
    }
    return text.length() == 0 ? null : text.toString();
  }
}
