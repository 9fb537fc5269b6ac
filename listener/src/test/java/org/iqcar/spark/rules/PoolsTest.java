package org.iqcar.spark.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.Arrays;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.junit.jupiter.api.Test;

/** Pools change while something runs in them; here pools stand for task sets. */
class PoolsTest {
  private final Pool root = new Pool("", SchedulingMode.FAIR(), 0, 0);

  private static PoolRules.PoolSpec spec(String name, int weight, String mode) {
    return new PoolRules.PoolSpec(name, weight, 0, mode);
  }

  private Schedulable pool(String name) {
    return root.schedulableNameToSchedulable().get(name);
  }

  private Pool running(String name, String in, int tasks) {
    Pool taskSet = new Pool(name, SchedulingMode.FIFO(), 0, 1);
    ((Pool) pool(in)).addSchedulable(taskSet);
    taskSet.increaseRunningTasks(tasks);
    return taskSet;
  }

  private Set<String> names() {
    return new TreeSet<>(root.schedulableNameToSchedulable().keySet());
  }

  @Test
  void aWeightChangesWhileTasksRun() {
    Pools pools = new Pools(root, false);
    pools.become(Collections.singletonList(spec("gold", 1, "FIFO")));
    Schedulable gold = pool("gold");
    running("a", "gold", 2);
    pools.become(Collections.singletonList(spec("gold", 5, "FIFO")));
    assertSame(gold, pool("gold"));
    assertEquals(5, gold.weight());
    assertEquals(2, root.runningTasks());
  }

  @Test
  void whatRunsInAPoolThatIsReplacedGoesOnInTheNewOne() {
    root.addSchedulable(new Pool("gold", SchedulingMode.FIFO(), 0, 7));
    Pool taskSet = running("a", "gold", 2);
    Pools pools = new Pools(root, false);
    pools.become(Collections.singletonList(spec("gold", 3, "FAIR")));
    assertEquals("gold FAIR 3", pool("gold").name() + " " + pool("gold").schedulingMode() + " "
        + pool("gold").weight());
    assertSame(pool("gold"), taskSet.parent());
    taskSet.decreaseRunningTasks(1);
    assertEquals("1 1", pool("gold").runningTasks() + " " + root.runningTasks());
    pools.become(Collections.emptyList());
    pools.removeUnused(Collections.emptySet());
    assertEquals("FIFO 7 1", pool("gold").schedulingMode() + " " + pool("gold").weight() + " "
        + pool("gold").runningTasks());
    assertEquals(1, root.runningTasks());
  }

  @Test
  void aTaskSetMovesWithItsRunningTasks() {
    Pools pools = new Pools(root, false);
    pools.become(Arrays.asList(spec("gold", 1, "FIFO"), spec("iron", 1, "FIFO")));
    Pool taskSet = running("a", "gold", 3);
    pools.move(taskSet, "iron");
    assertEquals("0 3 3", pool("gold").runningTasks() + " " + pool("iron").runningTasks() + " "
        + root.runningTasks());
    assertEquals(Collections.singletonList(taskSet), pools.taskSets());
    assertFalse(pools.move(taskSet, "nowhere"));
    assertSame(pool("iron"), taskSet.parent());
  }

  @Test
  void aPoolThatRulesNoLongerNameIsRemovedOnceItIsEmpty() {
    Pools pools = new Pools(root, true);
    pools.become(Arrays.asList(spec("gold", 4, "FIFO"), spec("iron", 1, "FIFO")));
    Pool taskSet = running("a", "gold", 1);
    pools.become(Collections.emptyList());
    pools.removeUnused(Collections.emptySet());
    assertEquals("[default, gold]", names().toString());
    assertEquals(1, pool("gold").weight());
    pools.move(taskSet, "default");
    pools.become(Collections.emptyList());
    pools.removeUnused(Collections.emptySet());
    assertEquals("[default]", names().toString());
    assertEquals(1, root.runningTasks());
  }
}
