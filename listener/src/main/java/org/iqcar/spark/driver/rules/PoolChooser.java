package org.iqcar.spark.driver.rules;

import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.driver.queries.RunningQueries;
import org.iqcar.spark.safety.Safely;

/**
 * Sets the pool of each task set that a rule is for, then calls the scheduler's own builder.
 *
 * <p>It runs on the thread that schedules all jobs, under the scheduler's lock.
 */
final class PoolChooser implements SchedulableBuilder {
  private final SchedulableBuilder spark;
  private final Placement placement;
  private final Pools pools;
  /** Task sets that a rule put into a pool when they came, and those that were moved later. */
  final LongAdder placed = new LongAdder();
  final LongAdder moved = new LongAdder();

  PoolChooser(SchedulableBuilder spark, Placement placement, Pools pools) {
    this.spark = spark;
    this.placement = placement;
    this.pools = pools;
  }

  @Override
  public Pool rootPool() {
    return spark.rootPool();
  }

  @Override
  public void buildPools() {
    spark.buildPools();
  }

  @Override
  public void addTaskSetManager(Schedulable taskSet, Properties properties) {
    Safely.run("choosing a pool", () -> {
      String pool = properties == null ? null : placement.poolOf(taskSet.priority());
      if (pool != null) {
        // These are the job's own copy: its tasks carry them, the user's thread does not.
        properties.setProperty(RunningQueries.POOL, pool);
        placed.increment();
      }
    });
    spark.addTaskSetManager(taskSet, properties);
  }

  /**
   * Replaces the rules. Task sets that run go into the pools that the new rules name, else back
   * into those that their jobs asked for. The caller holds the scheduler's lock.
   */
  void become(PoolRules rules) {
    pools.become(rules.pools.values());
    placement.become(rules);
    pools.taskSets().forEach(this::place);
    pools.removeUnused(rules.pools.keySet());
  }

  /** Moves the task sets of a job to where it belongs; the caller holds the scheduler's lock. */
  void place(int job) {
    for (Schedulable taskSet : pools.taskSets()) {
      if (taskSet.priority() == job) {
        place(taskSet);
      }
    }
  }

  private void place(Schedulable taskSet) {
    String pool = placement.poolNow(taskSet.priority());
    boolean moves = pool != null && pools.move(taskSet, pool);
    if (moves) {
      moved.increment();
    }
    if (moves && taskSet instanceof TaskSetManager) {
      Properties properties = ((TaskSetManager) taskSet).taskSet().properties();
      if (properties != null) {
        properties.setProperty(RunningQueries.POOL, pool);
      }
    }
  }
}
