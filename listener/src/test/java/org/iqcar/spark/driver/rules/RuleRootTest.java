package org.iqcar.spark.driver.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Properties;
import java.util.function.IntSupplier;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.SparkInternals;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import scala.Some;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction1;

class RuleRootTest {
  /** A root with one task set, in a pool that holds one task at once. */
  private static RuleRoot capped(IntSupplier slots) throws ReflectiveOperationException {
    return capped(slots, true);
  }

  private static RuleRoot capped(IntSupplier slots, boolean strict)
      throws ReflectiveOperationException {
    RuleRoot root = new RuleRoot(slots, new HeldJobs(() -> { }, () -> 0));
    RulePool pool = new RulePool(new PoolRules.PoolSpec("p", 1, 0, "FIFO", 1, 0.0, strict));
    root.addSchedulable(pool);
    pool.addSchedulable(TaskSets.of(7, new Properties()));
    return root;
  }

  @Test
  void whateverFailsWhileSlotsAreCountedSparkGetsItsOwnList() throws Exception {
    for (Throwable failure : new Throwable[] {
        new IllegalStateException(), new NoSuchMethodError(), new AssertionError(),
        new StackOverflowError()}) {
      RuleRoot root = capped(() -> {
        throw RuleRootTest.<RuntimeException>unchecked(failure);
      });
      long before = Failures.count();
      ArrayBuffer<TaskSetManager> queue = root.getSortedTaskSetQueue();
      assertEquals(ArrayBuffer.class, queue.getClass());
      assertEquals(1, queue.size());
      assertEquals(before + 1, Failures.count());
    }
  }

  @ParameterizedTest
  @CsvSource({"0,1", "1,1", "2,0", "3,1"})
  void aSchedulerThatWalksOtherThanCapsRelyOnIsNoticed(int walks, int noticed) throws Exception {
    RuleRoot root = capped(() -> 4);
    ArrayBuffer<TaskSetManager> queue = root.getSortedTaskSetQueue();
    for (int walk = 0; walk < walks; walk++) {
      queue.foreach(new AbstractFunction1<TaskSetManager, Object>() {
        @Override
        public Object apply(TaskSetManager each) {
          return each;
        }
      });
    }
    long before = Failures.count();
    root.getSortedTaskSetQueue();
    assertEquals(before + noticed, Failures.count());
  }

  /** Of one round with a cap of one task: each turn of the task set starts so many tasks. */
  @ParameterizedTest
  @CsvSource({"true,1,false,1", "false,1,false,2", "false,0,false,1", "false,1,true,1"})
  void aTaskSetHasASecondTurnWhereTheCapEndedItsFirst(
      boolean strict, int started, boolean excludes, int turns) throws Exception {
    RuleRoot root = capped(() -> 4, strict);
    RulePool pool = (RulePool) root.schedulableQueue().peek();
    TaskSetManager taskSet = (TaskSetManager) pool.schedulableQueue().peek();
    if (excludes) {
      SparkInternals.field(taskSet, "taskSetExcludelistHelperOpt").set(taskSet, new Some<>(""));
    }
    ArrayBuffer<TaskSetManager> queue = root.getSortedTaskSetQueue();
    int[] offered = new int[2];
    for (int walk = 0; walk < 2; walk++) {
      int now = walk;
      queue.foreach(new AbstractFunction1<TaskSetManager, Object>() {
        @Override
        public Object apply(TaskSetManager each) {
          offered[now]++;
          if (now == 1) {
            pool.increaseRunningTasks(started);
          }
          return each;
        }
      });
    }
    assertEquals(1, offered[0]);
    assertEquals(turns, offered[1]);
    assertFalse(taskSet.isZombie());
  }

  /** Has the field that Spark's scheduler has. */
  private static final class Scheduler {
    private final Pool rootPool;

    private Scheduler(Pool rootPool) {
      this.rootPool = rootPool;
    }
  }

  @Test
  void whatFailsAfterItTookItsPlaceLeavesTheSchedulerAsItWas() throws Exception {
    Pool old = new Pool("", SchedulingMode.FAIR(), 0, 0);
    Pool child = new Pool("p", SchedulingMode.FIFO(), 0, 1);
    old.addSchedulable(child);
    Scheduler scheduler = new Scheduler(old);
    RuleRoot root = new RuleRoot(() -> 4, new HeldJobs(() -> { }, () -> 0));
    assertThrows(NoSuchMethodError.class, () -> root.takePlace(scheduler, old, () -> {
      assertSame(root, SparkInternals.get(scheduler, "rootPool"));
      assertSame(root, child.parent());
      throw new NoSuchMethodError();
    }));
    assertSame(old, SparkInternals.get(scheduler, "rootPool"));
    assertSame(old, child.parent());
  }

  /** Has a field that no Java replaces, as newer ones replace no final field. */
  private static final class Refusing {
    private static final Pool rootPool = new Pool("", SchedulingMode.FIFO(), 0, 0);
  }

  @Test
  void whereJavaReplacesNoFinalFieldNothingHasChanged() throws Exception {
    Pool pools = new Pool("", SchedulingMode.FAIR(), 0, 0);
    Pool child = new Pool("p", SchedulingMode.FIFO(), 0, 1);
    pools.addSchedulable(child);
    RuleRoot root = new RuleRoot(() -> 4, new HeldJobs(() -> { }, () -> 0));
    assertThrows(IllegalAccessException.class, () -> root.takePlace(new Refusing(), pools, () -> {
      throw new AssertionError("it did not take its place");
    }));
    assertSame(pools, child.parent());
    assertEquals(0, root.schedulableQueue().size());
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> T unchecked(Throwable failure) throws T {
    throw (T) failure;
  }
}
