package org.iqcar.spark.rules;

import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;
import org.apache.spark.SparkContext;
import org.iqcar.spark.safety.Faults;

/** Counts the tasks that can run at once now; counts again a second later at the earliest. */
final class SlotsNow implements IntSupplier {
  private static final long KEPT_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final SparkContext sc;
  private long countedAt;
  private int slots;

  SlotsNow(SparkContext sc) {
    this.sc = sc;
  }

  @Override
  public int getAsInt() {
    Faults.at("rules.slots");
    long now = System.nanoTime();
    if (slots == 0 || now - countedAt > KEPT_NANOS) {
      slots = sc.maxNumConcurrentTasks(sc.resourceProfileManager().defaultResourceProfile());
      countedAt = now;
    }
    return slots;
  }
}
