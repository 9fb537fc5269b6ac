package org.iqcar.spark.eventlog;

import org.apache.spark.util.AccumulatorV2;

/**
 * Carries one task's record to the driver, inside the task's own result.
 *
 * <p>An executor must use a copy deserialised from the driver's: with a new instance, Spark fails
 * to serialise the result, and the task never ends. On the driver the value is a count of records,
 * because Spark logs it again with every task and stage.
 */
public final class TaskRecordAccumulator extends AccumulatorV2<String, String> {
  private static final long serialVersionUID = 1L;
  /** The name under which records are found in the event log. */
  public static final String NAME = "iqcar.task";

  private volatile String record = "";
  private long merged;

  @Override
  public boolean isZero() {
    return record.isEmpty() && merged == 0;
  }

  @Override
  public AccumulatorV2<String, String> copy() {
    TaskRecordAccumulator copy = new TaskRecordAccumulator();
    copy.record = record;
    copy.merged = merged;
    return copy;
  }

  @Override
  public void reset() {
    record = "";
    merged = 0;
  }

  @Override
  public void add(String json) {
    record = json;
  }

  @Override
  public void merge(AccumulatorV2<String, String> other) {
    merged++;
  }

  @Override
  public String value() {
    return record.isEmpty() ? "n=" + merged : record;
  }
}
