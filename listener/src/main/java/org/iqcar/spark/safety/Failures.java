package org.iqcar.spark.safety;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts the plugin's own failures in this JVM, and logs the first of each place with its stack. */
public final class Failures {
  private static final Logger LOG = LoggerFactory.getLogger(Failures.class);
  private static final AtomicLong COUNT = new AtomicLong();
  /** Places told apart: there are some thirty in the code. */
  private static final int MOST_PLACES = 100;
  private static final Map<String, Long> PLACES = new ConcurrentHashMap<>();

  private Failures() {}

  /** Counts a failure and throws none. Where the thread was interrupted, it is so again. */
  public static void note(String where, Throwable failure) {
    try {
      COUNT.getAndIncrement();
      String place = PLACES.size() < MOST_PLACES || PLACES.containsKey(where) ? where : "something";
      if (PLACES.merge(place, 1L, Long::sum) == 1) {
        LOG.warn("iqcar: {} failed; the job is not affected. Later failures there are counted.",
            where, failure);
      }
    } catch (Throwable ignored) {
      // Logging itself may fail (no memory, class loading during shutdown): the job must not.
    }
    if (failure instanceof InterruptedException) {
      Thread.currentThread().interrupt();
    }
  }

  /** Number of failures so far, by place. */
  public static Map<String, Long> byPlace() {
    return new TreeMap<>(PLACES);
  }

  /** Number of failures so far. */
  public static long count() {
    return COUNT.get();
  }
}
