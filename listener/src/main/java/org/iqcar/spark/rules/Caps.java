package org.iqcar.spark.rules;

import org.apache.spark.scheduler.Schedulable;

/** Tells the caps of pools that rules made. */
public final class Caps {
  private Caps() {}

  /** Most tasks of a pool that run at once where there are so many slots; 0: it has no cap. */
  public static int most(Schedulable pool, int slots) {
    PoolRules.PoolSpec spec = spec(pool);
    return spec != null && spec.isCapped() ? spec.most(slots) : 0;
  }

  /** Whether a pool's cap also holds where slots are idle. */
  public static boolean isStrict(Schedulable pool) {
    PoolRules.PoolSpec spec = spec(pool);
    return spec != null && spec.isCapped() && spec.strict;
  }

  private static PoolRules.PoolSpec spec(Schedulable pool) {
    return pool instanceof RulePool ? ((RulePool) pool).spec() : null;
  }
}
