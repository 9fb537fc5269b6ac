package org.iqcar.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;

/**
 * What the host's sampler shall watch beside the host: this JVM, its Python workers and tasks.
 * Called by task threads, so it only keeps a note; the sampler's own thread passes it on.
 */
final class HostWatch {
  /** Notes kept between two periods; what does not fit is not watched. */
  private static final int MOST = 10_000;

  private static final List<String> ORDERS = new ArrayList<>();
  private static final Set<Long> KNOWN = Collections.newSetFromMap(new Recent<>(MOST));
  private static String jvm;
  private static String executor;

  private HostWatch() {}

  static synchronized void begin(String pid, String name) {
    jvm = pid;
    ORDERS.clear();
    KNOWN.clear();
    executor = name.replaceAll("\\s", "_");
    add("watch " + jvm + " " + executor + " jvm");
  }

  static synchronized void end() {
    executor = null;
    ORDERS.clear();
  }

  static synchronized void python(long pid) {
    if (executor != null && KNOWN.add(pid)) {
      add("watch " + pid + " " + executor + " python");
    }
  }

  static synchronized void start(KernelThread thread, long task) {
    if (executor != null && thread != null) {
      add(startOf(thread, task));
    }
  }

  static synchronized void end(KernelThread thread, long task) {
    // A task shorter than a period is never watched, so that many short ones cost nothing.
    if (executor != null && thread != null && !ORDERS.remove(startOf(thread, task) + "\n")) {
      add("end " + thread.tid);
    }
  }

  private static String startOf(KernelThread thread, long task) {
    return "task " + thread.tid + " " + jvm + " " + task;
  }

  private static void add(String order) {
    if (ORDERS.size() < MOST) {
      ORDERS.add(order + "\n");
    }
  }

  /** The notes since the last call, a line each. */
  static synchronized String orders() {
    String lines = String.join("", ORDERS);
    ORDERS.clear();
    return lines;
  }
}
