package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * The event that holds how many events Spark's listener bus has dropped until its time, by queue.
 *
 * <p>Event logs contain this class's name, so it must not change. A History Server without the
 * class skips the event. One with it creates the object by reflection, which needs a constructor
 * without parameters; fields of later versions are ignored.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventDropped implements SparkListenerEvent {
  private int version = 1;
  private long timeMs;
  private Map<String, Long> queues = new TreeMap<>();

  public IqcarEventDropped() {}

  IqcarEventDropped(long timeMs, Map<String, Long> queues) {
    this.timeMs = timeMs;
    this.queues = queues;
  }

  public int getVersion() {
    return version;
  }

  public void setVersion(int version) {
    this.version = version;
  }

  public long getTimeMs() {
    return timeMs;
  }

  public void setTimeMs(long timeMs) {
    this.timeMs = timeMs;
  }

  /** Only queues that dropped any. */
  public Map<String, Long> getQueues() {
    return queues;
  }

  public void setQueues(Map<String, Long> queues) {
    this.queues = queues;
  }
}
