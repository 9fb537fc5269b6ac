package org.iqcar.spark.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Properties;
import java.util.function.IntSupplier;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.safety.Failures;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction1;

class RuleRootTest {
  /** A root with one task set, in a pool that holds one task at once. */
  private static RuleRoot capped(IntSupplier slots) throws ReflectiveOperationException {
    RuleRoot root = new RuleRoot(slots, new HeldJobs(() -> { }));
    RulePool pool = new RulePool(new PoolRules.PoolSpec("p", 1, 0, "FIFO", 1, 0.0, true));
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

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> T unchecked(Throwable failure) throws T {
    throw (T) failure;
  }
}
