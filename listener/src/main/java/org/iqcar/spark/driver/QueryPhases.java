package org.iqcar.spark.driver;

import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.iqcar.spark.IqcarEventPhases;
import org.iqcar.spark.IqcarEventPhases.Phase;
import org.iqcar.spark.safety.LruMap;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Reads from the event that ends a SQL execution when the driver planned it, how long the JVM compiled
 * generated code meanwhile, and how late the listeners are.
 *
 * <p>In the driver the event carries Spark's {@code QueryExecution}, whose tracker has the times.
 * The plugin is compiled without Spark SQL, so all of it is read by reflection; no plan is kept.
 * Spark adds up compilation for the whole JVM: of executions that run at once each is told of all.
 * Used by one thread.
 */
final class QueryPhases {
  private static final String EVENTS = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution";
  private static final String METRICS = "org.apache.spark.metrics.source.CodegenMetrics$";
  private static final String GENERATOR =
      "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$";
  private static final int MOST_EXECUTIONS = 2_000;
  /** Spark has four: parsing, analysis, optimization, planning. */
  private static final int MOST_PHASES = 10;
  private static final int MOST_CHARACTERS = 40;
  /** From the execution's end to its arrival here. */
  private static final String LISTENERS = "listeners";

  /** Spark's sum of compilation when each execution started, in ns. */
  private final LruMap<Long, Long> compiledBefore = new LruMap<>(MOST_EXECUTIONS);
  /** False for what could not be read once: Spark's version will not change. */
  private boolean phasesKnown = true;
  private boolean compilingKnown = true;

  /** What is known of a SQL execution that ended; null for any other event. */
  IqcarEventPhases of(SparkListenerEvent event, long nowMs) throws ReflectiveOperationException {
    Class<?> kind = event.getClass();
    boolean ended = kind.getName().equals(EVENTS + "End");
    if (!ended && !kind.getName().equals(EVENTS + "Start")) {
      return null;
    }
    IqcarEventPhases found = new IqcarEventPhases();
    found.executionId = number(event, "executionId");
    compilingKnown = compilingKnown && Safely.run("reading how long code was compiled", () -> {
      long now = compiledNanos(kind.getClassLoader());
      Long before = ended ? compiledBefore.remove(found.executionId)
          : compiledBefore.put(found.executionId, now);
      found.compileMs = before == null ? -1 : Math.max(0, now - before) / 1_000_000;
    });
    if (!ended) {
      return null;
    }
    phasesKnown = phasesKnown && Safely.run("reading how a query was planned", () -> {
      try {
        addPhases(SparkInternals.call(event, "qe"), found.phases);
      } catch (InvocationTargetException changing) {
        // The plan is being run again, and Spark changed its map meanwhile: it is left out.
        found.phases.clear();
      }
    });
    long end = number(event, "time");
    found.phases.add(new Phase(LISTENERS, end, Math.max(end, nowMs)));
    return found;
  }

  /**
   * Spark's own sum. Its holder takes settings of the thread that first needs it, which must not be
   * this one: before the first compilation it is not touched.
   */
  private static long compiledNanos(ClassLoader spark) throws ReflectiveOperationException {
    Object times = SparkInternals.call(module(METRICS, spark), "METRIC_COMPILATION_TIME");
    return number(times, "getCount") == 0 ? 0 : number(module(GENERATOR, spark), "compileTime");
  }

  private static Object module(String name, ClassLoader spark)
      throws ReflectiveOperationException {
    return Class.forName(name, true, spark).getField("MODULE$").get(null);
  }

  private static void addPhases(Object execution, List<Phase> found)
      throws ReflectiveOperationException {
    if (execution == null) {
      return;
    }
    Object phases = SparkInternals.call(SparkInternals.call(execution, "tracker"), "phases");
    for (Object entry : SparkInternals.sequence(phases, "toSeq")) {
      scala.Tuple2<?, ?> named = (scala.Tuple2<?, ?>) entry;
      String name = String.valueOf(named._1());
      if (found.size() < MOST_PHASES && name.length() <= MOST_CHARACTERS) {
        found.add(new Phase(
            name, number(named._2(), "startTimeMs"), number(named._2(), "endTimeMs")));
      }
    }
  }

  private static long number(Object holder, String name) throws ReflectiveOperationException {
    return ((Number) SparkInternals.call(holder, name)).longValue();
  }
}
