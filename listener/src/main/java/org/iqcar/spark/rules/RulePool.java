package org.iqcar.spark.rules;

import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulingMode;

/**
 * A pool of the FAIR scheduler whose weight and minShare can change while it runs tasks.
 *
 * <p>All methods are called under the scheduler's lock, but for reads of weight and minShare.
 */
final class RulePool extends Pool {
  /** One object, so that a change acts as a whole. */
  private volatile PoolRules.PoolSpec spec;

  RulePool(PoolRules.PoolSpec spec) {
    super(spec.name, spec.mode.equals("FAIR") ? SchedulingMode.FAIR() : SchedulingMode.FIFO(),
        spec.minShare, spec.weight);
    this.spec = spec;
  }

  PoolRules.PoolSpec spec() {
    return spec;
  }

  /** Changes all but name and mode, which a pool keeps for life. */
  void become(PoolRules.PoolSpec wanted) {
    spec = wanted;
  }

  @Override
  public int weight() {
    // Spark's constructor does not ask, but a subclass's field is not set before it ends.
    PoolRules.PoolSpec now = spec;
    return now == null ? super.weight() : now.weight;
  }

  @Override
  public int minShare() {
    PoolRules.PoolSpec now = spec;
    return now == null ? super.minShare() : now.minShare;
  }
}
