package org.iqcar.spark.driver.rules;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Times the scheduler's rounds of offers, with a job waiting in each pool, in a running Spark.
 *
 * <p>No slot is offered, so nothing starts: what is left of a round is the sorting of the pools and
 * the walk over their task sets, which is all that caps can slow down.
 */
public final class OfferRounds {
  private OfferRounds() {}

  /**
   * Times rounds with Spark's own root pool, and with pools that have no cap, a loose and a strict
   * one; the kinds take turns.
   *
   * @param jsc has the rules' pools {@code p0}, {@code p1} …; the first jobs take its slots
   * @param pools number of pools
   * @param rounds of each kind in each turn
   * @param turns of each kind
   * @return one line per kind: its name, and the CPU ns per round of each turn
   */
  public static String time(JavaSparkContext jsc, int pools, int rounds, int turns)
      throws Exception {
    for (int pool = 0; pool < pools; pool++) {
      jsc.setLocalProperty("spark.scheduler.pool", "p" + pool);
      jsc.parallelize(Arrays.asList(1, 2), 2).foreachAsync(each -> Thread.sleep(3_600_000));
    }
    Object scheduler = jsc.sc().taskScheduler();
    Field field = SparkInternals.field(scheduler, "rootPool");
    Pool rules = (Pool) field.get(scheduler);
    while (waiting(scheduler, rules) < pools) {
      Thread.sleep(100);
    }
    Map<String, StringBuilder> lines = new LinkedHashMap<>();
    for (int turn = 0; turn < turns; turn++) {
      for (String kind : Arrays.asList("spark", "none", "loose", "strict")) {
        long ns;
        synchronized (scheduler) {
          Pool root = kind.equals("spark")
              ? new Pool("", SchedulingMode.FAIR(), 0, 0) : rules;
          become(rules, kind);
          for (Schedulable child : rules.schedulableQueue()) {
            if (root != rules) {
              root.addSchedulable(child);
            }
          }
          field.set(scheduler, root);
          try {
            ns = rounds(scheduler, rounds);
          } finally {
            field.set(scheduler, rules);
            for (Schedulable child : rules.schedulableQueue()) {
              SparkInternals.field(child, "parent").set(child, rules);
            }
          }
        }
        lines.computeIfAbsent(kind, StringBuilder::new).append(' ').append(ns / rounds);
      }
    }
    return String.join("\n", lines.values());
  }

  private static int waiting(Object scheduler, Pool root) {
    synchronized (scheduler) {
      return root.getSortedTaskSetQueue().size();
    }
  }

  private static void become(Pool root, String kind) {
    int cap = kind.equals("loose") || kind.equals("strict") ? 1 : 0;
    for (Schedulable child : root.schedulableQueue()) {
      if (child instanceof RulePool) {
        PoolRules.PoolSpec old = ((RulePool) child).spec();
        ((RulePool) child).become(new PoolRules.PoolSpec(
            old.name, old.weight, old.minShare, old.mode, cap, 0.0, kind.equals("strict")));
      }
    }
  }

  private static long rounds(Object scheduler, int rounds) throws ReflectiveOperationException {
    List<Method> found = new ArrayList<>();
    for (Method method : scheduler.getClass().getMethods()) {
      if (method.getName().equals("resourceOffers") && method.getParameterCount() == 2) {
        found.add(method);
      }
    }
    Object nobody = scala.collection.immutable.Vector$.MODULE$.empty();
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long start = threads.getCurrentThreadCpuTime();
    for (int round = 0; round < rounds; round++) {
      found.get(0).invoke(scheduler, nobody, false);
    }
    return threads.getCurrentThreadCpuTime() - start;
  }
}
