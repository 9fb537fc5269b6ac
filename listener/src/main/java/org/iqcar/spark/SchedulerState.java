package org.iqcar.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.iqcar.spark.rules.Caps;

/** Reads the scheduler's mode, slots and pools. */
final class SchedulerState {
  /**
   * Most pools listed in one event. User code that names a new pool for each job makes the list
   * longer, and each time it is written again. Pools of files and rules come first.
   */
  private static final int MOST_POOLS = 200;

  private SchedulerState() {}

  /** The state at a time, in ms since 1970. */
  static IqcarEventScheduler read(SparkContext sc, SlotCount slots, long now) {
    IqcarEventScheduler event = new IqcarEventScheduler();
    int cpus = sc.conf().getInt("spark.task.cpus", 1);
    event.setTimeMs(now);
    event.setTaskCpus(cpus);
    event.setExecutors(slots.executors());
    event.setSlots(slots.slots(cpus));
    List<IqcarEventScheduler.PoolState> pools = new ArrayList<>();
    Pool root = sc.taskScheduler().rootPool();
    if (root != null) {
      event.setMode(root.schedulingMode().toString());
      for (Schedulable child : root.schedulableQueue()) {
        if (child instanceof Pool && pools.size() < MOST_POOLS) {
          IqcarEventScheduler.PoolState pool = new IqcarEventScheduler.PoolState();
          pool.setName(child.name());
          pool.setMode(child.schedulingMode().toString());
          pool.setWeight(child.weight());
          pool.setMinShare(child.minShare());
          pool.setCap(Caps.most(child, event.getSlots()));
          pool.setStrict(Caps.isStrict(child));
          pools.add(pool);
        }
      }
    }
    event.setPools(pools);
    return event;
  }
}
