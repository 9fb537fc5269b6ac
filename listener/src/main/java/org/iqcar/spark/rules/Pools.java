package org.iqcar.spark.rules;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;

/** Creates pools in a running scheduler; the caller holds the scheduler's lock. */
final class Pools {
  private final Pool root;
  private final List<PoolRules.PoolSpec> missing;

  /**
   * @param keepDefaultFifo whether to make the default pool first in, first out, unless it is among
   *     the wanted pools: in FAIR mode Spark 3.4 and later share it fairly
   */
  Pools(Pool root, Collection<PoolRules.PoolSpec> wanted, boolean keepDefaultFifo) {
    this.root = root;
    missing = new ArrayList<>(wanted);
    boolean named = wanted.stream().anyMatch(p -> p.name.equals(PoolRules.DEFAULT_POOL));
    if (keepDefaultFifo && !named) {
      missing.add(new PoolRules.PoolSpec(PoolRules.DEFAULT_POOL, 1, 0, "FIFO"));
    }
  }

  /**
   * Creates the missing pools. Spark's own pool of the same name cannot be changed, so it is
   * replaced, but only while it is empty; otherwise the next call tries again.
   */
  void make() {
    Iterator<PoolRules.PoolSpec> each = missing.iterator();
    while (each.hasNext()) {
      PoolRules.PoolSpec wanted = each.next();
      Schedulable old = find(wanted.name);
      if (old == null || old.schedulableQueue().isEmpty()) {
        if (old != null) {
          root.removeSchedulable(old);
        }
        root.addSchedulable(new RulePool(wanted));
        each.remove();
      }
    }
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
