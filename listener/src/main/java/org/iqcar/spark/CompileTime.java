package org.iqcar.spark;

import org.iqcar.spark.safety.LruMap;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Tells how long the driver's JVM compiled generated code while a SQL execution ran.
 *
 * <p>Spark adds it up for the whole JVM: of executions that run at once each is told of all. Used
 * by one thread.
 */
final class CompileTime {
  private static final String METRICS = "org.apache.spark.metrics.source.CodegenMetrics$";
  private static final String GENERATOR =
      "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$";
  private static final int MOST_EXECUTIONS = 2_000;

  private final LruMap<Long, Long> atStart = new LruMap<>(MOST_EXECUTIONS);

  void started(long execution, ClassLoader spark) throws ReflectiveOperationException {
    atStart.put(execution, nanos(spark));
  }

  /** Milliseconds since the execution started; −1 where its start was not seen. */
  long ended(long execution, ClassLoader spark) throws ReflectiveOperationException {
    Long before = atStart.remove(execution);
    return before == null ? -1 : Math.max(0, nanos(spark) - before) / 1_000_000;
  }

  /**
   * Spark's own sum. Its holder takes settings of the thread that first needs it, which must not be
   * this one: before the first compilation it is not touched.
   */
  private static long nanos(ClassLoader spark) throws ReflectiveOperationException {
    Object times = SparkInternals.call(module(METRICS, spark), "METRIC_COMPILATION_TIME");
    if (((Number) SparkInternals.call(times, "getCount")).longValue() == 0) {
      return 0;
    }
    return ((Number) SparkInternals.call(module(GENERATOR, spark), "compileTime")).longValue();
  }

  private static Object module(String name, ClassLoader spark)
      throws ReflectiveOperationException {
    return Class.forName(name, true, spark).getField("MODULE$").get(null);
  }
}
