package org.iqcar.spark;

import java.util.HashMap;
import java.util.Map;

/** Counts executors and their task slots. Used by one thread. */
final class SlotCount {
  private final Map<String, Integer> cores = new HashMap<>();

  void add(String executor, int count) {
    cores.put(executor, count);
  }

  void remove(String executor) {
    cores.remove(executor);
  }

  int executors() {
    return cores.size();
  }

  /** Tasks that can run at once. */
  int slots(int cpusPerTask) {
    int slots = 0;
    for (int count : cores.values()) {
      slots += count / Math.max(1, cpusPerTask);
    }
    return slots;
  }
}
