package org.iqcar.spark.driver;

import java.lang.reflect.InvocationTargetException;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.iqcar.spark.IqcarEventExecutors;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Writes the number of executors that dynamic allocation wants into the event log whenever it has
 * changed, looking once a second from a daemon thread of its own.
 *
 * <p>It reads Spark's own gauge, which takes no lock. Without dynamic allocation there is no thread.
 */
final class ExecutorTarget {
  private static final String GAUGE = "numberTargetExecutors";
  private static final long PERIOD_MS = 1000;

  private final SparkContext sc;
  private final Object gauge;
  private final ScheduledExecutorService clock;
  private int last = -1;

  private ExecutorTarget(SparkContext sc, Object gauge) {
    this.sc = sc;
    this.gauge = gauge;
    clock = Safely.clock("iqcar-executors", 1);
  }

  /** Starts to watch an application; null where it has no dynamic allocation. */
  static ExecutorTarget watch(SparkContext sc) throws ReflectiveOperationException {
    Object gauge = gauge(sc);
    if (gauge == null) {
      return null;
    }
    ExecutorTarget watching = new ExecutorTarget(sc, gauge);
    watching.clock.scheduleWithFixedDelay(
        watching::look, 0, PERIOD_MS, TimeUnit.MILLISECONDS);
    return watching;
  }

  private static Object gauge(SparkContext sc) throws ReflectiveOperationException {
    scala.Option<?> manager =
        (scala.Option<?>) SparkInternals.call(sc, "executorAllocationManager");
    if (manager == null || !manager.isDefined()) {
      return null;
    }
    Object source = SparkInternals.call(manager.get(), "executorAllocationManagerSource");
    Object gauges = SparkInternals.call(SparkInternals.call(source, "metricRegistry"), "getGauges");
    for (Map.Entry<?, ?> entry : ((Map<?, ?>) gauges).entrySet()) {
      if (String.valueOf(entry.getKey()).endsWith(GAUGE)) {
        return entry.getValue();
      }
    }
    return null;
  }

  private void look() {
    boolean goesOn = Safely.get("watching the executors wanted", false, () -> {
      try {
        int wanted = sc.isStopped() ? last
            : ((Number) SparkInternals.call(gauge, "getValue")).intValue();
        if (wanted != last) {
          last = wanted;
          IqcarEventExecutors event = new IqcarEventExecutors();
          event.executors = wanted;
          sc.listenerBus().post(event);
        }
      } catch (InvocationTargetException changing) {
        // Spark changed its map while the gauge summed it: the next look is a second away.
      }
      return !sc.isStopped();
    });
    if (!goesOn) {
      stop();
    }
  }

  void stop() {
    clock.shutdown();
  }
}
