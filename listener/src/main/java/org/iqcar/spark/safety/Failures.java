package org.iqcar.spark.safety;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts the plugin's own failures in this JVM; logs the first of each place with its stack, and
 * later ones of that place every ten minutes at most.
 */
public final class Failures {
  private static final Logger LOG = LoggerFactory.getLogger(Failures.class);
  private static final AtomicLong COUNT = new AtomicLong();
  private static final long QUIET_NANOS = TimeUnit.MINUTES.toNanos(10);
  /** Places told apart: there are some thirty in the code. */
  private static final int MOST_PLACES = 100;
  private static final Map<String, Place> PLACES = new ConcurrentHashMap<>();

  private Failures() {}

  private static final class Place {
    private long count;
    private long saidAt;

    /** Counts one; returns how many there were where it is time to say so, else 0. */
    synchronized long next(long now) {
      count++;
      if (count > 1 && now - saidAt < QUIET_NANOS) {
        return 0;
      }
      saidAt = now;
      return count;
    }

    synchronized long count() {
      return count;
    }
  }

  /**
   * Counts a failure and throws none, be the memory full: Spark's threads and their tasks go on, and
   * so do ours. Where the thread was interrupted, it is so again.
   */
  public static void note(String where, Throwable failure) {
    try {
      COUNT.getAndIncrement();
      long times = next(where, System.nanoTime());
      if (times == 1) {
        LOG.warn("iqcar: {} failed; the job is not affected. Later failures there are counted.",
            where, failure);
      } else if (times > 1) {
        LOG.warn("iqcar: {} failed {} times so far, the last time with {}", where, times,
            failure.toString());
      }
    } catch (Throwable ignored) {
      // Logging itself may fail (no memory, class loading during shutdown): the job must not.
    }
    if (failure instanceof InterruptedException) {
      Thread.currentThread().interrupt();
    }
  }

  /** Counts a failure of a place; returns how many there were where it is time to say so, else 0. */
  static long next(String where, long now) {
    String place = PLACES.size() < MOST_PLACES || PLACES.containsKey(where) ? where : "something";
    return PLACES.computeIfAbsent(place, any -> new Place()).next(now);
  }

  /** Number of failures so far, by place. */
  public static Map<String, Long> byPlace() {
    Map<String, Long> counts = new TreeMap<>();
    PLACES.forEach((name, place) -> counts.put(name, place.count()));
    return counts;
  }

  /** Number of failures so far. */
  public static long count() {
    return COUNT.get();
  }
}
