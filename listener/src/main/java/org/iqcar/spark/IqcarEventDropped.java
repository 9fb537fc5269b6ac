package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.scheduler.SparkListenerEvent;

/** How many events Spark's listener bus has dropped until a time, by queue. */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventDropped implements SparkListenerEvent {
  public int version = 1;
  public long timeMs = System.currentTimeMillis();
  /** Only queues that dropped any. */
  public Map<String, Long> queues = new TreeMap<>();
}
