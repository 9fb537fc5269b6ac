package org.iqcar.spark.host;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.iqcar.spark.safety.LruMap;

/**
 * Collects what the sampling process is to watch beside the host: this JVM, its Python workers and
 * its tasks. Task threads only leave an order here; the sampler's thread passes orders on.
 */
public final class HostWatch {
  /** Most orders kept between two periods, and most workers known; the rest is not watched. */
  private static final int MOST = 10_000;

  private static final List<String> ORDERS = new ArrayList<>();
  private static final Set<Long> KNOWN = Collections.newSetFromMap(new LruMap<>(MOST));
  private static String jvm;
  private static String executor;

  private HostWatch() {}

  /** Starts collecting, with the JVM's process id and the executor's name. */
  static synchronized void begin(String pid, String name) {
    jvm = pid;
    ORDERS.clear();
    KNOWN.clear();
    executor = name.replaceAll("\\s", "_");
    add("watch " + jvm + " " + executor + " jvm");
  }

  /** Stops collecting. */
  static synchronized void end() {
    executor = null;
    ORDERS.clear();
  }

  /** Watches a Python worker. */
  public static synchronized void python(long pid) {
    if (executor != null && KNOWN.add(pid)) {
      add("watch " + pid + " " + executor + " python");
    }
  }

  /**
   * Watches a task from its start on.
   *
   * @param tid the kernel's id of the task's thread; null where there is none
   */
  public static synchronized void start(String tid, long task) {
    if (executor != null && tid != null) {
      add(startOf(tid, task));
    }
  }

  /** Ends watching a task. */
  public static synchronized void end(String tid, long task) {
    // A task shorter than a period is never watched, so many short tasks cost nothing.
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

  /** Returns the orders since the last call, a line each, and forgets them. */
  static synchronized String orders() {
    String lines = String.join("", ORDERS);
    ORDERS.clear();
    return lines;
  }
}
