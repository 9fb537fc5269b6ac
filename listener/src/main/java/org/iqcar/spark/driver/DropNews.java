package org.iqcar.spark.driver;

import java.util.Collections;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.iqcar.spark.IqcarEventDropped;
import org.iqcar.spark.safety.DroppedEvents;

/**
 * Writes into the event log how many events Spark has dropped, when that has changed and at the end.
 * Used by one thread.
 */
final class DropNews {
  /** Where events are dropped, no more are wanted: at most one of these in that time. */
  private static final long QUIET_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final String LOG = "eventLog";
  private static final int MOST_TRIES = 20;
  private static final int PAUSE_MS = 10;

  private final SparkContext sc;
  private final DroppedEvents dropped;
  private Map<String, Long> said = Collections.emptyMap();
  private long saidAt;

  DropNews(SparkContext sc) {
    this.sc = sc;
    dropped = new DroppedEvents(sc);
  }

  /** The counts of which this tells. */
  DroppedEvents counts() {
    return dropped;
  }

  /** Says what was dropped, if that has changed and it is time to say so. */
  void look() {
    if (!dropped.byQueue().equals(said)
        && (said.isEmpty() || System.nanoTime() - saidAt > QUIET_NANOS)) {
      say();
    }
  }

  /** Says what was dropped, if any was; returns whether the log's queue took it. */
  boolean say() {
    said = dropped.byQueue();
    saidAt = System.nanoTime();
    if (!said.isEmpty()) {
      long before = dropped.of(LOG);
      IqcarEventDropped event = new IqcarEventDropped();
      event.queues = said;
      sc.listenerBus().post(event);
      return dropped.of(LOG) == before;
    }
    return true;
  }

  /**
   * Says it when the application ends: again while the log's queue is full, {@value #MOST_TRIES}
   * times in all, {@value #PAUSE_MS} ms apart.
   */
  void last() throws InterruptedException {
    for (int tries = 1; !say() && tries < MOST_TRIES; tries++) {
      Thread.sleep(PAUSE_MS);
    }
  }
}
