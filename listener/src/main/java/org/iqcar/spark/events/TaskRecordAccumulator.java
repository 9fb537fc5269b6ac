package org.iqcar.spark.events;

import java.io.IOException;
import java.io.ObjectInputStream;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.util.AccumulatorV2;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Safely;
import scala.Option;
import scala.Some;

/**
 * Carries one task's record to the driver, inside the task's own result.
 *
 * <p>An executor must use a copy deserialised from the driver's: with a new instance, Spark fails
 * to serialise the result, and the task never ends. On the driver the value is a count of records,
 * because Spark logs it again with every task and stage.
 *
 * <p>Spark's store of the UI keeps every task's update of an accumulator, in the driver and in the
 * History Server, except of those marked as SQL's, which are in the event log all the same.
 */
public final class TaskRecordAccumulator extends AccumulatorV2<String, String> {
  private static final long serialVersionUID = 1L;
  /** The name under which records are found in the event log. */
  public static final String NAME = "iqcar.task";

  /** Spark's {@code AccumulatorContext.SQL_ACCUM_IDENTIFIER}. */
  private static final Option<String> NOT_IN_THE_UI = new Some<>("sql");

  private static final String ADDING = "adding up records";
  private static final String NOT_MARKED = "keeping records out of the UI's store";

  private volatile String record = "";
  private long merged;
  /** What is added up of the record; null where nobody has read it yet. */
  private transient long[] numbers;
  /** Where the driver adds up records; null elsewhere. */
  private transient RecordTotals totals;

  /** Adds up the records that will come, on the driver. */
  public void total(RecordTotals into) {
    totals = into;
  }

  /** Notes where Spark never asks for what is marked, so that its store holds each record. */
  public static void noteIfNotAsked() {
    try {
      AccumulatorV2.class.getMethod("toInfo", Option.class, Option.class);
    } catch (NoSuchMethodException changed) {
      Failures.note(NOT_MARKED, changed);
    }
  }

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
    add("");
    merged = 0;
  }

  @Override
  public void add(String json) {
    record = json;
    numbers = null;
  }

  @Override
  public void merge(AccumulatorV2<String, String> other) {
    merged++;
    if (totals != null && other instanceof TaskRecordAccumulator) {
      Safely.run(ADDING, () -> {
        long[] found = ((TaskRecordAccumulator) other).numbers();
        if (found == null) {
          totals.missed();
        } else {
          totals.add(found);
        }
      });
    }
  }

  /** The numbers of the record; null where there is none. */
  private long[] numbers() {
    if (numbers == null && !record.isEmpty()) {
      numbers = RecordTotals.numbers(record);
    }
    return numbers;
  }

  /**
   * Reads the record's numbers in the thread that reads a task's result: the one that merges it is
   * the scheduler's, which all jobs wait for.
   */
  private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
    in.defaultReadObject();
    Safely.run(ADDING, this::numbers);
  }

  @Override
  public String value() {
    return record.isEmpty() ? "n=" + merged : record;
  }

  /** What Spark keeps of this accumulator: marked, so that no store holds it. */
  @Override
  public AccumulableInfo toInfo(Option<Object> update, Option<Object> value) {
    AccumulableInfo info = super.toInfo(update, value);
    try {
      return new AccumulableInfo(info.id(), info.name(), info.update(), info.value(),
          info.internal(), info.countFailedValues(), NOT_IN_THE_UI);
    } catch (LinkageError changed) {
      // Spark's own threads ask: neither tasks nor jobs would end any more.
      Failures.note(NOT_MARKED, changed);
      return info;
    }
  }

  /** The same for a task that failed or still runs; not every Spark has the method. */
  public AccumulableInfo toInfoUpdate() {
    return toInfo(new Some<>(value()), Option.empty());
  }
}
