package org.iqcar.spark.host;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.iqcar.spark.safety.LruMap;

/**
 * What the host's sampler shall watch beside the host: this JVM, its Python workers and tasks.
 * Called by task threads, so it only keeps a note; the sampler's own thread passes it on.
 */
public final class HostWatch {
  /** Notes kept between two periods; what does not fit is not watched. */
  private static final int MOST = 10_000;

  private static final List<String> ORDERS = new ArrayList<>();
  private static final Set<Long> KNOWN = Collections.newSetFromMap(new LruMap<>(MOST));
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

  public static synchronized void python(long pid) {
    if (executor != null && KNOWN.add(pid)) {
      add("watch " + pid + " " + executor + " python");
    }
  }

  public static synchronized void start(String tid, long task) {
    if (executor != null && tid != null) {
      add(startOf(tid, task));
    }
  }

  public static synchronized void end(String tid, long task) {
    // A task shorter than a period is never watched, so that many short ones cost nothing.
    if (executor != null && tid != null && !ORDERS.remove(startOf(tid, task) + "\n")) {
      add("end " + tid);
    }
  }

  private static String startOf(String tid, long task) {
    return "task " + tid + " " + jvm + " " + task;
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
