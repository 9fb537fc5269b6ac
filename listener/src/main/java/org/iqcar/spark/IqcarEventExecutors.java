package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * The event that holds the number of executors that dynamic allocation wants from its time on.
 *
 * <p>Event logs contain this class's name, so it must not change. A History Server without the
 * class skips the event. One with it creates the object by reflection, which needs a constructor
 * without parameters; fields of later versions are ignored.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventExecutors implements SparkListenerEvent {
  private int version = 1;
  private long timeMs;
  private int executors;

  public IqcarEventExecutors() {}

  IqcarEventExecutors(long timeMs, int executors) {
    this.timeMs = timeMs;
    this.executors = executors;
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

  public int getExecutors() {
    return executors;
  }

  public void setExecutors(int executors) {
    this.executors = executors;
  }
}
