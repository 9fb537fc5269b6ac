package org.iqcar.spark.events;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import org.iqcar.spark.executor.measure.Sampler;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.settings.Settings;
import org.junit.jupiter.api.Test;

/** The registry holds numbers from the start, and a failure's place once it has failed. */
class PluginMetricsTest {
  private static MetricRegistry executor() {
    MetricRegistry registry = new MetricRegistry();
    Settings settings = new Settings(key -> null);
    PluginMetrics metrics = new PluginMetrics(registry, "executor");
    new RecordTotals().gauges(metrics);
    new Sampler(settings).gauges(metrics);
    metrics.failures();
    return registry;
  }

  private static Object value(MetricRegistry registry, String name) {
    return ((Gauge<?>) registry.getMetrics().get(name)).getValue();
  }

  @Test
  void everyMetricIsANumberBeforeTheFirstTask() {
    MetricRegistry registry = executor();
    for (String name : registry.getNames()) {
      Object value = value(registry, name);
      boolean period = name.endsWith("period_seconds");
      if (!name.endsWith("failures")) {
        assertEquals(period ? 0.02 : 0.0, ((Number) value).doubleValue(), name);
      }
    }
    assertEquals(WaitClass.ALL.length + 2, registry.getNames().stream()
        .filter(name -> name.contains("waited_seconds")).count());
  }

  @Test
  void aPlaceThatFailedIsAMetricFromTheNextReadingOn() {
    MetricRegistry registry = executor();
    String name = "executor.failures_at.a_metric_s_test";
    long before = (Long) value(registry, "executor.failures");
    Failures.note("a metric's test", new IllegalStateException("planted"));
    assertFalse(registry.getNames().contains(name));
    assertTrue((Long) value(registry, "executor.failures") > before);
    assertEquals(1L, value(registry, name));
    Failures.note("a metric's test", new IllegalStateException("planted"));
    value(registry, "executor.failures");
    assertEquals(2L, value(registry, name));
  }
}
