package org.iqcar.spark.rules;

/** Counts what rules do now and did so far. Any thread may ask; none waits. */
public final class RuleCounts {
  private final PoolChooser chooser;

  RuleCounts(PoolChooser chooser) {
    this.chooser = chooser;
  }

  /** Pools that the rules of the moment define. */
  public long pools() {
    return chooser.rules().pools.size();
  }

  /** Assignments of the rules of the moment. */
  public long assignments() {
    return chooser.rules().assignments.size();
  }

  /** Pools of the rules of the moment that have a cap. */
  public long caps() {
    return chooser.rules().pools.values().stream().filter(PoolRules.PoolSpec::isCapped).count();
  }

  /** Task sets that a rule put into a pool when they came. */
  public long placed() {
    return chooser.placed.sum();
  }

  /** Task sets that were moved to another pool later. */
  public long moved() {
    return chooser.moved.sum();
  }
}
