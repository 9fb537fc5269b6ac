package org.iqcar.spark.events;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import org.iqcar.spark.safety.SparkInternals;

/** Sends records to a driver, makes their texts unreadable, and prints what merging adds up. */
public final class MergedRecords {
  private MergedRecords() {}

  /** Prints seconds of CPU, records and missing ones; arguments: the records. */
  public static void main(String[] records) throws Exception {
    RecordTotals totals = new RecordTotals();
    TaskRecordAccumulator driver = new TaskRecordAccumulator();
    driver.total(totals);
    for (String record : records) {
      TaskRecordAccumulator came = sent(record);
      if (!came.isZero()) {
        SparkInternals.field(came, "record").set(came, "no record");
      }
      driver.merge(came);
    }
    System.out.printf("%.0f %d %d%n", totals.cpu.sum() / 1e9, totals.records.sum(), totals.missing.sum());
  }

  /** What the driver gets of what an executor sends. */
  private static TaskRecordAccumulator sent(String record) throws Exception {
    TaskRecordAccumulator carrier = new TaskRecordAccumulator();
    SparkInternals.field(carrier, "atDriverSide").set(carrier, false);
    carrier.add(record);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(carrier);
    }
    return (TaskRecordAccumulator)
        new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray())).readObject();
  }
}
