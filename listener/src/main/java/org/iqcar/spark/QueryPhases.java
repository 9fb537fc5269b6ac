package org.iqcar.spark;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Reads from the event that ends a SQL execution when the driver planned it, and how late the
 * listeners are.
 *
 * <p>In the driver the event carries Spark's {@code QueryExecution}, whose tracker has the times.
 * The plugin is compiled without Spark SQL, so all of it is read by reflection; no plan is kept.
 * Used by one thread.
 */
final class QueryPhases {
  private static final String EVENTS = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution";
  /** Spark has four: parsing, analysis, optimization, planning. */
  private static final int MOST_PHASES = 10;
  private static final int MOST_CHARACTERS = 40;
  /** From the execution's end to its arrival here. */
  private static final String LISTENERS = "listeners";

  private final CompileTime compiling = new CompileTime();
  /** What could not be read once: Spark's version will not change. */
  private boolean noPhases;
  private boolean noCompiling;

  /** What is known of a SQL execution that ended; null for any other event. */
  IqcarEventPhases of(SparkListenerEvent event, long nowMs) throws ReflectiveOperationException {
    Class<?> kind = event.getClass();
    boolean ended = kind.getName().equals(EVENTS + "End");
    if (!ended && !kind.getName().equals(EVENTS + "Start")) {
      return null;
    }
    long execution = number(event, "executionId");
    long compileMs = compileMs(ended, execution, kind.getClassLoader());
    if (!ended) {
      return null;
    }
    List<IqcarEventPhases.Phase> found = new ArrayList<>();
    if (!noPhases) {
      try {
        addPhases(SparkInternals.call(event, "qe"), found);
      } catch (InvocationTargetException changing) {
        // The plan is being run again, and Spark changed its map meanwhile: it is left out.
        found.clear();
      } catch (Exception failure) {
        noPhases = true;
        Failures.note("reading how a query was planned", failure);
      }
    }
    long end = number(event, "time");
    found.add(new IqcarEventPhases.Phase(LISTENERS, end, Math.max(end, nowMs)));
    return new IqcarEventPhases(execution, found, compileMs);
  }

  private long compileMs(boolean ended, long execution, ClassLoader spark) {
    try {
      if (!noCompiling && ended) {
        return compiling.ended(execution, spark);
      } else if (!noCompiling) {
        compiling.started(execution, spark);
      }
    } catch (Exception | LinkageError failure) {
      noCompiling = true;
      Failures.note("reading how long code was compiled", failure);
    }
    return -1;
  }

  private static void addPhases(Object execution, List<IqcarEventPhases.Phase> found)
      throws ReflectiveOperationException {
    if (execution == null) {
      return;
    }
    Object phases = SparkInternals.call(SparkInternals.call(execution, "tracker"), "phases");
    for (Object entry : SparkInternals.sequence(phases, "toSeq")) {
      scala.Tuple2<?, ?> named = (scala.Tuple2<?, ?>) entry;
      String name = String.valueOf(named._1());
      if (found.size() < MOST_PHASES && name.length() <= MOST_CHARACTERS) {
        found.add(new IqcarEventPhases.Phase(
            name, number(named._2(), "startTimeMs"), number(named._2(), "endTimeMs")));
      }
    }
  }

  private static long number(Object holder, String name) throws ReflectiveOperationException {
    return ((Number) SparkInternals.call(holder, name)).longValue();
  }
}
