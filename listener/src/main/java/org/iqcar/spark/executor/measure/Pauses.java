package org.iqcar.spark.executor.measure;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/** Reads for how long garbage collections have stopped the JVM. */
final class Pauses {
  private static final List<GarbageCollectorMXBean> COLLECTORS = stopping();

  private Pauses() {}

  /** The collectors that stop the JVM: others report concurrent cycles, which do not. */
  private static List<GarbageCollectorMXBean> stopping() {
    List<GarbageCollectorMXBean> found = new ArrayList<>();
    for (GarbageCollectorMXBean gc : ManagementFactory.getGarbageCollectorMXBeans()) {
      if (!gc.getName().contains("Concurrent") && !gc.getName().contains("Cycles")) {
        found.add(gc);
      }
    }
    return found;
  }

  /** Total since the JVM's start, in ms. */
  static long totalMs() {
    long total = 0;
    for (GarbageCollectorMXBean gc : COLLECTORS) {
      total += Math.max(0, gc.getCollectionTime());
    }
    return total;
  }
}
