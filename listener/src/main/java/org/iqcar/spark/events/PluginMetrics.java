package org.iqcar.spark.events;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import java.util.Map;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;
import org.iqcar.spark.safety.Failures;

/**
 * Puts the plugin's counts into the registry that Spark gives it, from which Spark's own sinks (JMX,
 * Prometheus, files) read them. All are gauges: nothing is done until a sink reads.
 *
 * <p>In local mode both halves of the plugin have the same name, and Spark takes no metric twice: so
 * names begin with {@code driver} or {@code application}, and with {@code executor}.
 */
public final class PluginMetrics {
  private final MetricRegistry registry;
  private final String half;

  /**
   * Metrics of one half of the plugin.
   *
   * @param half how their names begin
   */
  public PluginMetrics(MetricRegistry registry, String half) {
    this.registry = registry;
    this.half = half;
  }

  /**
   * Failures of the plugin in this JVM. A place gets its own gauge when a sink next reads the sum: so
   * neither a place that never fails nor the thread that fails has any cost.
   */
  public void failures() {
    count("failures", () -> {
      Map<String, Long> places = Failures.byPlace();
      places.keySet().forEach(this::failuresAt);
      return Failures.count();
    });
  }

  private void failuresAt(String place) {
    String name = "failures_at." + place.replaceAll("[^A-Za-z0-9]+", "_");
    synchronized (this) {
      if (!registry.getNames().contains(full(name))) {
        count(name, () -> Failures.byPlace().getOrDefault(place, 0L));
      }
    }
  }

  private String full(String name) {
    return half + "." + name;
  }

  /** A whole number. */
  public void count(String name, LongSupplier value) {
    registry.register(full(name), (Gauge<Long>) value::getAsLong);
  }

  /** A number of seconds, or a part. */
  public void seconds(String name, DoubleSupplier value) {
    registry.register(full(name), (Gauge<Double>) value::getAsDouble);
  }
}
