package org.iqcar.spark.driver.rules;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;

/** Makes and changes pools in a running scheduler; the caller holds the scheduler's lock. */
final class Pools {
  private final Pool root;
  /** What each pool of the rules was before they defined it; null where there was none. */
  private final Map<String, PoolRules.PoolSpec> before = new LinkedHashMap<>();

  Pools(Pool root) {
    this.root = root;
  }

  /**
   * Makes the wanted pools, and changes those that exist. Spark's own pool cannot be changed, and
   * no pool's mode can: it is replaced, and its task sets go on in the new one. Pools that an
   * earlier call made and that are not wanted any more are as they were, or as Spark makes them.
   */
  void become(Collection<PoolRules.PoolSpec> wanted) {
    Map<String, PoolRules.PoolSpec> all = new LinkedHashMap<>();
    for (PoolRules.PoolSpec spec : wanted) {
      all.put(spec.name, spec);
    }
    for (Map.Entry<String, PoolRules.PoolSpec> known : before.entrySet()) {
      String name = known.getKey();
      if (!all.containsKey(name)) {
        set(known.getValue() != null ? known.getValue()
            : new PoolRules.PoolSpec(name, 1, 0, "FIFO"));
      }
    }
    for (PoolRules.PoolSpec spec : all.values()) {
      if (!before.containsKey(spec.name)) {
        before.put(spec.name, specOf(find(spec.name)));
      }
      set(spec);
    }
    before.entrySet().removeIf(
        known -> known.getValue() != null && !all.containsKey(known.getKey()));
  }

  /** Removes empty pools that there would not be without rules, but the wanted ones. */
  void removeUnused(Collection<String> wanted) {
    Iterator<String> each = before.keySet().iterator();
    while (each.hasNext()) {
      String name = each.next();
      Schedulable pool = find(name);
      boolean kept = wanted.contains(name) || name.equals(PoolRules.DEFAULT_POOL);
      if (!kept && pool != null && pool.schedulableQueue().isEmpty()) {
        root.removeSchedulable(pool);
        each.remove();
      }
    }
  }

  /** The task sets in all pools. */
  List<Schedulable> taskSets() {
    List<Schedulable> found = new ArrayList<>();
    for (Schedulable pool : root.schedulableQueue()) {
      if (pool instanceof Pool) {
        found.addAll(pool.schedulableQueue());
      }
    }
    return found;
  }

  /** Moves a task set with its running tasks; to nowhere if there is no such pool. */
  boolean move(Schedulable taskSet, String name) {
    Schedulable to = find(name);
    if (to == null || to == taskSet.parent()) {
      return false;
    }
    move(taskSet, (Pool) to);
    return true;
  }

  private static void move(Schedulable taskSet, Pool to) {
    Pool from = taskSet.parent();
    int running = taskSet.runningTasks();
    from.removeSchedulable(taskSet);
    from.decreaseRunningTasks(running);
    to.addSchedulable(taskSet);
    to.increaseRunningTasks(running);
  }

  private void set(PoolRules.PoolSpec wanted) {
    Schedulable old = find(wanted.name);
    if (old instanceof RulePool && modeOf(old).equals(wanted.mode)) {
      ((RulePool) old).become(wanted);
      return;
    }
    Pool made = new RulePool(wanted);
    if (old != null) {
      root.removeSchedulable(old);
    }
    root.addSchedulable(made);
    if (old != null) {
      for (Schedulable taskSet : new ArrayList<>(old.schedulableQueue())) {
        move(taskSet, made);
      }
    }
  }

  private static PoolRules.PoolSpec specOf(Schedulable pool) {
    return pool == null ? null
        : new PoolRules.PoolSpec(pool.name(), pool.weight(), pool.minShare(), modeOf(pool));
  }

  private static String modeOf(Schedulable pool) {
    return pool.schedulingMode().toString();
  }

  private Schedulable find(String name) {
    for (Schedulable child : root.schedulableQueue()) {
      if (child instanceof Pool && child.name().equals(name)) {
        return child;
      }
    }
    return null;
  }
}
