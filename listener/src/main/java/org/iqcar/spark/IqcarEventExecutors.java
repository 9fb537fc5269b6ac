package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import org.apache.spark.scheduler.SparkListenerEvent;

/** The number of executors that dynamic allocation wants from a time on. */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventExecutors implements SparkListenerEvent {
  public int version = 1;
  public long timeMs = System.currentTimeMillis();
  public int executors;
}
