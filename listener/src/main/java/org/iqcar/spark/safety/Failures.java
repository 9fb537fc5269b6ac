package org.iqcar.spark.safety;

import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Our own failures: the first is logged with its stack, the rest are counted. */
public final class Failures {
  private static final Logger LOG = LoggerFactory.getLogger(Failures.class);
  private static final AtomicLong COUNT = new AtomicLong();

  private Failures() {}

  /** Takes note of a failure; never throws. */
  public static void note(String where, Throwable failure) {
    try {
      if (COUNT.getAndIncrement() == 0) {
        LOG.warn("iqcar: {} failed; the job is not affected. Later failures are only counted.",
            where, failure);
      }
    } catch (Throwable ignored) {
      // Even logging may fail (class loading during shutdown): the job comes first.
    }
  }

  public static long count() {
    return COUNT.get();
  }
}
