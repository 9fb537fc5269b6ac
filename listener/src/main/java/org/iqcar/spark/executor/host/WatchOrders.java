package org.iqcar.spark.executor.host;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.iqcar.spark.safety.LruMap;

/**
 * Collects what the sampling process is to watch beside the host: this JVM and its Python workers.
 * Task threads only leave an order here; the sampler's thread passes orders on.
 */
public final class WatchOrders {
  /** Most orders kept between two periods, and most workers known; the rest is not watched. */
  private static final int MOST = 10_000;

  private static final List<String> ORDERS = new ArrayList<>();
  private static final Set<Long> KNOWN = Collections.newSetFromMap(new LruMap<>(MOST));
  private static boolean begun;

  private WatchOrders() {}

  /** Starts collecting, with the JVM's process id. */
  static synchronized void begin(String pid) {
    begun = true;
    ORDERS.clear();
    KNOWN.clear();
    add("watch " + pid + " jvm");
  }

  /** Stops collecting. */
  static synchronized void end() {
    begun = false;
    ORDERS.clear();
  }

  /** Watches a Python worker. */
  public static synchronized void python(long pid) {
    if (begun && KNOWN.add(pid)) {
      add("watch " + pid + " python");
    }
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
