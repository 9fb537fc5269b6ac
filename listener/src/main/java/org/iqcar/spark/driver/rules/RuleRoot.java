package org.iqcar.spark.driver.rules;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;
import scala.collection.mutable.ArrayBuffer;

/**
 * The scheduler's root pool, which holds the caps of its pools. It offers no slots to jobs whose pool
 * is not known yet ({@link HeldJobs}).
 *
 * <p>A task set of a capped pool is offered slots until so many tasks of the pool run; where the
 * cap is not strict, it is offered again those that nobody has taken at the end of the round.
 * Barrier stages start whole or not at all, so no cap holds them.
 */
final class RuleRoot extends Pool {
  private static final String FIELD = "rootPool";

  private final IntSupplier slots;
  private final HeldJobs held;
  private Round last;

  /**
   * Makes a root pool.
   *
   * @param slots counts the slots there are now; called under the scheduler's lock
   * @param held the jobs whose task sets are offered no slots
   */
  RuleRoot(IntSupplier slots, HeldJobs held) {
    super("", SchedulingMode.FAIR(), 0, 0);
    this.slots = slots;
    this.held = held;
  }

  /**
   * Stands where the scheduler's root pool stood, before any task ran; the caller holds the lock.
   *
   * @param pools the root of the pools that it takes over
   * @param rest what remains to be done then
   * @throws Exception if it cannot, or the rest cannot; then the scheduler has its root pool and that
   *     its pools, as after any other failure. IllegalAccessException: where Java replaces no field
   *     that is final
   */
  void takePlace(Object scheduler, Pool pools, Safely.Work rest) throws Exception {
    Field field = SparkInternals.field(scheduler, FIELD);
    Object old = field.get(scheduler);
    field.set(scheduler, this);
    try {
      for (Schedulable child : pools.schedulableQueue()) {
        addSchedulable(child);
      }
      rest.run();
    } catch (Throwable failure) {
      // Task sets would be added to one root, and looked for in the other.
      field.set(scheduler, old);
      for (Schedulable child : pools.schedulableQueue()) {
        child.parent_$eq(pools);
      }
      throw failure;
    }
  }

  @Override
  public ArrayBuffer<TaskSetManager> getSortedTaskSetQueue() {
    ArrayBuffer<TaskSetManager> sorted = super.getSortedTaskSetQueue();
    // Where that fails, Spark would offer no slots any more: better no caps than no tasks.
    return Safely.get("counting slots for caps", sorted, () -> turns(sorted));
  }

  private ArrayBuffer<TaskSetManager> turns(ArrayBuffer<TaskSetManager> sorted) {
    Round before = last;
    last = null;
    if (before != null) {
      before.check();
    }
    boolean capped = anyCapped();
    if (!capped && !held.any()) {
      return sorted;
    }
    List<TaskSetManager> all = new ArrayList<>(sorted.size());
    for (int i = 0; i < sorted.size(); i++) {
      all.add(sorted.apply(i));
    }
    last = new Round(all, capped ? slots.getAsInt() : 0, held);
    return new TurnQueue<>(all, last);
  }

  private boolean anyCapped() {
    for (Schedulable child : schedulableQueue()) {
      if (RulePool.isCapped(child) && !child.schedulableQueue().isEmpty()) {
        return true;
      }
    }
    return false;
  }

  /** The pool whose cap holds a task set, or null. */
  private static RulePool capped(TaskSetManager taskSet) {
    Pool pool = taskSet.parent();
    return RulePool.isCapped(pool) && !taskSet.isBarrier() ? (RulePool) pool : null;
  }

  /** One round: Spark tells all task sets of new executors, then it offers them slots. */
  private static final class Round
      implements BiConsumer<List<TaskSetManager>, Consumer<TaskSetManager>> {
    private final int slots;
    /** Task sets that are offered slots, and the pool of each whose cap holds it, or null. */
    private final List<TaskSetManager> placed = new ArrayList<>();
    private final List<RulePool> pools = new ArrayList<>();
    private int walks;

    /** Asks Spark all that it will need, because the scheduler survives no failure in a walk. */
    Round(List<TaskSetManager> all, int slots, HeldJobs held) {
      this.slots = slots;
      for (TaskSetManager taskSet : all) {
        if (!held.holds(taskSet.priority())) {
          RulePool pool = capped(taskSet);
          if (pool != null) {
            pool.rehearse(taskSet);
          }
          placed.add(taskSet);
          pools.add(pool);
        }
      }
    }

    /** Notes a scheduler that walks through its task sets otherwise than caps rely on. */
    void check() {
      if (walks != 2) {
        Failures.note("offering slots by caps", new IllegalStateException(
            "the scheduler walked " + walks + " times through its task sets, not twice"));
      }
    }

    @Override
    public void accept(List<TaskSetManager> all, Consumer<TaskSetManager> offer) {
      if (++walks == 1) {
        all.forEach(offer);
        return;
      }
      List<TaskSetManager> again = new ArrayList<>();
      for (int i = 0; i < placed.size(); i++) {
        TaskSetManager taskSet = placed.get(i);
        RulePool pool = pools.get(i);
        if (pool == null) {
          offer.accept(taskSet);
          continue;
        }
        // A second turn that finds no slot must follow no first one where failures exclude: Spark
        // ends a task set that takes nothing, cannot run on any executor, and finds none idle.
        int most = pool.spec().most(slots);
        boolean left = pool.runningTasks() >= most
            || pool.offer(taskSet, most, () -> offer.accept(taskSet)) && !RulePool.excludes(taskSet);
        if (left && !pool.spec().strict) {
          again.add(taskSet);
        }
      }
      again.forEach(offer);
    }
  }
}
