package org.iqcar.spark.driver;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.iqcar.spark.IqcarEventScheduler;
import org.iqcar.spark.driver.rules.RulePool;

/** The scheduler's mode, slots and pools as they were last told. Used by one thread. */
final class SchedulerState {
  /**
   * Most pools listed in one event. User code that names a new pool for each job makes the list
   * longer, and each time it is written again. Pools of files and rules come first.
   */
  private static final int MOST_POOLS = 200;

  private final Map<String, Integer> cores = new HashMap<>();
  /** Empty before it is told. */
  private String told = "";

  void add(String executor, int count) {
    cores.put(executor, count);
  }

  void remove(String executor) {
    cores.remove(executor);
  }

  /**
   * Corrects what is wrong because Spark dropped events: executors that are gone are forgotten, and
   * those that were not told of are taken to have as many cores as another one.
   *
   * @param now the executors that there are
   */
  void become(Collection<?> now) {
    int like = cores.values().stream().findFirst().orElse(1);
    cores.keySet().retainAll(now);
    now.forEach(executor -> cores.putIfAbsent(String.valueOf(executor), like));
  }

  int executors() {
    return cores.size();
  }

  /** Tasks that can run at once. */
  int slots(int cpusPerTask) {
    return cores.values().stream().mapToInt(count -> count / Math.max(1, cpusPerTask)).sum();
  }

  /** Whether {@link #tell} was called. */
  boolean isTold() {
    return !told.isEmpty();
  }

  /** Writes the state into the event log, if it differs from what it was when it was last told. */
  void tell(SparkContext sc) {
    IqcarEventScheduler event = new IqcarEventScheduler();
    event.taskCpus = sc.conf().getInt("spark.task.cpus", 1);
    event.executors = executors();
    event.slots = slots(event.taskCpus);
    Pool root = sc.taskScheduler().rootPool();
    if (root != null) {
      event.mode = root.schedulingMode().toString();
      for (Schedulable child : root.schedulableQueue()) {
        if (child instanceof Pool && event.pools.size() < MOST_POOLS) {
          IqcarEventScheduler.PoolState pool = new IqcarEventScheduler.PoolState();
          pool.name = child.name();
          pool.mode = child.schedulingMode().toString();
          pool.weight = child.weight();
          pool.minShare = child.minShare();
          pool.cap = RulePool.most(child, event.slots);
          pool.strict = RulePool.isStrict(child);
          event.pools.add(pool);
        }
      }
    }
    String now = event.describe();
    if (!now.equals(told)) {
      told = now;
      sc.listenerBus().post(event);
    }
  }
}
