package org.iqcar.spark;

import java.util.Collection;
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

  /**
   * Corrects what is wrong because Spark dropped events: executors that are gone are forgotten, and
   * those that were not told of are taken to have as many cores as another one.
   *
   * @param now the executors that there are
   */
  void become(Collection<?> now) {
    int like = cores.values().stream().findFirst().orElse(1);
    cores.keySet().retainAll(now);
    now.forEach(executor -> cores.putIfAbsent(String.valueOf(executor), like));
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
