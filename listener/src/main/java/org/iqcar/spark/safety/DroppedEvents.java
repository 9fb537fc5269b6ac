package org.iqcar.spark.safety;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Metric;
import com.codahale.metrics.MetricRegistry;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkContext;

/**
 * Reads how many events Spark's listener bus has dropped, because a queue was full: its own counts,
 * which are right as soon as a post returns. Where they cannot be reached nothing is known to be lost.
 */
public final class DroppedEvents {
  private static final String BEGIN = "queue.";
  private static final String END = ".numDroppedEvents";

  /** Spark's; null where it cannot be reached. */
  private final MetricRegistry registry;

  /** Of an application. */
  public DroppedEvents(SparkContext sc) {
    registry = Safely.get("counting the events that Spark drops", null,
        () -> sc.listenerBus().metrics().metricRegistry());
  }

  /** Events that a queue has dropped so far. */
  public long of(String queue) {
    return count(registry == null ? null : registry.getMetrics().get(BEGIN + queue + END));
  }

  /** The same of each queue that has dropped any. */
  public Map<String, Long> byQueue() {
    Map<String, Long> found = new TreeMap<>();
    if (registry != null) {
      registry.getMetrics().forEach((name, metric) -> {
        if (name.startsWith(BEGIN) && name.endsWith(END) && count(metric) > 0) {
          found.put(name.substring(BEGIN.length(), name.length() - END.length()), count(metric));
        }
      });
    }
    return found;
  }

  private static long count(Metric metric) {
    return metric instanceof Counter ? ((Counter) metric).getCount() : 0;
  }
}
