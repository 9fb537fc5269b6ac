package org.iqcar.spark.measure;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/** Time for which garbage collection stopped the whole JVM. */
final class Pauses {
  private static final List<GarbageCollectorMXBean> COLLECTORS = stopping();

  private Pauses() {}

  /** Collectors that stop the JVM; others count whole concurrent cycles as their time. */
  private static List<GarbageCollectorMXBean> stopping() {
    List<GarbageCollectorMXBean> found = new ArrayList<>();
    for (GarbageCollectorMXBean gc : ManagementFactory.getGarbageCollectorMXBeans()) {
      if (!gc.getName().contains("Concurrent") && !gc.getName().contains("Cycles")) {
        found.add(gc);
      }
    }
    return found;
  }

  static long totalMs() {
    long total = 0;
    for (GarbageCollectorMXBean gc : COLLECTORS) {
      total += Math.max(0, gc.getCollectionTime());
    }
    return total;
  }
}
