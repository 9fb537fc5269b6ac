package org.iqcar.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Reads from the event that ends a SQL execution when the driver planned it, and how late the
 * listeners are.
 *
 * <p>In the driver the event carries Spark's {@code QueryExecution}, whose tracker has the times.
 * The plugin is compiled without Spark SQL, so all of it is read by reflection; nothing is kept.
 */
final class QueryPhases {
  private static final String END = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd";
  /** Spark has four: parsing, analysis, optimization, planning. */
  private static final int MOST_PHASES = 10;
  private static final int MOST_CHARACTERS = 40;
  /** From the execution's end to its arrival here. */
  private static final String LISTENERS = "listeners";

  private QueryPhases() {}

  /** The phases of a SQL execution that ended; null for any other event. */
  static IqcarEventPhases of(SparkListenerEvent event, long nowMs)
      throws ReflectiveOperationException {
    if (!event.getClass().getName().equals(END)) {
      return null;
    }
    List<IqcarEventPhases.Phase> found = new ArrayList<>();
    Object execution = SparkInternals.call(event, "qe");
    if (execution != null) {
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
    long ended = number(event, "time");
    found.add(new IqcarEventPhases.Phase(LISTENERS, ended, Math.max(ended, nowMs)));
    return new IqcarEventPhases(number(event, "executionId"), found);
  }

  private static long number(Object holder, String name) throws ReflectiveOperationException {
    return ((Number) SparkInternals.call(holder, name)).longValue();
  }
}
