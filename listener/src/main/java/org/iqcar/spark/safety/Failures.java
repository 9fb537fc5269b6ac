package org.iqcar.spark.safety;

import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts the plugin's own failures in this JVM; logs the first with its stack. */
public final class Failures {
  private static final Logger LOG = LoggerFactory.getLogger(Failures.class);
  private static final AtomicLong COUNT = new AtomicLong();

  private Failures() {}

  /** Counts a failure; never throws. */
  public static void note(String where, Throwable failure) {
    try {
      if (COUNT.getAndIncrement() == 0) {
        LOG.warn("iqcar: {} failed; the job is not affected. Later failures are only counted.",
            where, failure);
      }
    } catch (Throwable ignored) {
      // Logging itself may fail (class loading during shutdown): the job must not.
    }
  }

  /** Number of failures so far. */
  public static long count() {
    return COUNT.get();
  }
}
