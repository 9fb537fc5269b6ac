package org.iqcar.spark.driver.rules;

import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSetManager;

/**
 * A pool of the FAIR scheduler whose weight, minShare and cap can change while it runs tasks.
 *
 * <p>All methods are called under the scheduler's lock, but for reads of weight and minShare.
 */
public final class RulePool extends Pool {
  /** One object, so that a change acts as a whole. */
  private volatile PoolRules.PoolSpec spec;
  /** The task set that is offered slots now, until so many tasks of the pool run. */
  private TaskSetManager offered;
  private int most;
  private boolean paused;

  RulePool(PoolRules.PoolSpec spec) {
    super(spec.name, spec.mode.equals("FAIR") ? SchedulingMode.FAIR() : SchedulingMode.FIFO(),
        spec.minShare, spec.weight);
    this.spec = spec;
  }

  PoolRules.PoolSpec spec() {
    return spec;
  }

  /** Most tasks of a pool that run at once where there are so many slots; 0: it has no cap. */
  public static int most(Schedulable pool, int slots) {
    return isCapped(pool) ? ((RulePool) pool).spec.most(slots) : 0;
  }

  /** Whether a pool's cap also holds where slots are idle. */
  public static boolean isStrict(Schedulable pool) {
    return isCapped(pool) && ((RulePool) pool).spec.strict;
  }

  /** Whether a pool has a cap. */
  static boolean isCapped(Schedulable pool) {
    return pool instanceof RulePool && ((RulePool) pool).spec.isCapped();
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

  /**
   * Offers slots to one of its task sets, until so many tasks of the pool run; fewer do now.
   *
   * <p>One turn offers every free slot, and Spark asks nobody between two launches. It does tell
   * the pool of each, so at the cap the pool lets the task set look finished, which takes no
   * offers, until the turn ends. The scheduler's lock is held all the time: nobody else sees it.
   *
   * @return whether the cap ended the turn; else the task set has taken all that it can use
   */
  boolean offer(TaskSetManager taskSet, int mostRunning, Runnable turn) {
    offered = taskSet;
    most = mostRunning;
    paused = false;
    try {
      turn.run();
    } finally {
      offered = null;
      if (paused) {
        taskSet.isZombie_$eq(false);
      }
    }
    return paused;
  }

  /** Whether Spark excludes executors on which tasks of a task set failed. */
  static boolean excludes(TaskSetManager taskSet) {
    return taskSet.taskSetExcludelistHelperOpt().isDefined();
  }

  /** Does what a turn does, without effect: what this Spark lacks is missed now. */
  void rehearse(TaskSetManager taskSet) {
    runningTasks();
    excludes(taskSet);
    taskSet.isZombie_$eq(taskSet.isZombie());
  }

  @Override
  public void increaseRunningTasks(int tasks) {
    super.increaseRunningTasks(tasks);
    if (offered != null && !paused && runningTasks() >= most && !offered.isZombie()) {
      paused = true;
      offered.isZombie_$eq(true);
    }
  }
}
