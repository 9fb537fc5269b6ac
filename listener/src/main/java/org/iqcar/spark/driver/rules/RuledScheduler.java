package org.iqcar.spark.driver.rules;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.FairSchedulableBuilder;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.SchedulerBackend;
import org.iqcar.spark.events.PluginMetrics;
import org.iqcar.spark.safety.DroppedEvents;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;

/** One of Spark's schedulers, which gets the rules' pools and {@link PoolChooser}, FAIR last. */
final class RuledScheduler implements RuleWatch.Target {
  private static final String QUEUE = "iqcar";
  /** Slots are counted again a second later at the earliest. */
  private static final long KEPT_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final SparkContext sc;
  private final Object scheduler;
  private final HeldJobs held;
  private Placement placement;
  private PoolChooser chooser;
  private long countedAt;
  private int slots;

  RuledScheduler(SparkContext sc, Object scheduler) {
    this.sc = sc;
    this.scheduler = scheduler;
    DroppedEvents dropped = new DroppedEvents(sc);
    held = new HeldJobs(this::offerSlots, () -> dropped.of(QUEUE));
  }

  /**
   * Adds the first rules.
   *
   * @param others the root of the pools that exist without rules; null for the scheduler's own
   * @throws Exception if it cannot; then the scheduler is as it was, as after any other failure
   */
  void begin(PoolRules first, Pool others) throws Exception {
    for (Class<?> made : new Class<?>[] {
        RuleRoot.class, RulePool.class, TurnQueue.class, PoolChooser.class}) {
      SparkInternals.checkOverrides(made);
    }
    // The scheduler holds this lock when it adds to its pools.
    synchronized (scheduler) {
      Field field = SparkInternals.field(scheduler, "schedulableBuilder");
      SchedulableBuilder before = (SchedulableBuilder) field.get(scheduler);
      if (backend() == null) {
        held.stop();
      }
      RuleRoot root = new RuleRoot(this::slots, held);
      placement = new Placement(first, held, this::runs);
      chooser = new PoolChooser(builder(root, sc), placement, new Pools(root));
      placement.onLateAnswer(job -> {
        synchronized (scheduler) {
          chooser.place(job);
        }
        offerSlots();
      });
      root.takePlace(scheduler, others == null ? before.rootPool() : others, () -> {
        chooser.become(first);
        sc.listenerBus().addToQueue(placement, QUEUE);
        field.set(scheduler, chooser);
        sc.conf().set(Rules.MODE, Rules.FAIR);
      });
    }
  }

  /** Spark's own maker of pools; what it takes beside the root differs between versions. */
  static SchedulableBuilder builder(Pool root, SparkContext sc)
      throws ReflectiveOperationException {
    Constructor<?> made = FairSchedulableBuilder.class.getConstructors()[0];
    return (SchedulableBuilder) made.newInstance(
        root, made.getParameterTypes()[1] == SparkConf.class ? sc.conf() : sc);
  }

  @Override
  public void become(PoolRules next) {
    placement.prepare(next);
    synchronized (scheduler) {
      chooser.become(next);
    }
    // Of a cap that is raised, idle slots are offered now, not when a task has ended.
    offerSlots();
  }

  @Override
  public boolean ended() {
    return sc.isStopped();
  }

  /** Holds no job any more. */
  void stop() {
    held.stop();
  }

  /** Any thread may ask for them; none waits. */
  void gauges(PluginMetrics metrics) {
    metrics.count("rules.pools", () -> placement.rules().pools.size());
    metrics.count("rules.assignments", () -> placement.rules().assignments.size());
    metrics.count("rules.caps", () -> placement.rules().pools.values().stream()
        .filter(PoolRules.PoolSpec::isCapped).count());
    metrics.count("rules.placed", chooser.placed::sum);
    metrics.count("rules.moved", chooser.moved::sum);
  }

  /** Whether a job runs; the thread that asks is the one on which jobs begin and end. */
  private boolean runs(int job) {
    return sc.dagScheduler().jobIdToActiveJob().contains(job);
  }

  /** Tasks that can run at once; called under the scheduler's lock. */
  private int slots() {
    long now = System.nanoTime();
    if (slots == 0 || now - countedAt > KEPT_NANOS) {
      slots = sc.maxNumConcurrentTasks(sc.resourceProfileManager().defaultResourceProfile());
      countedAt = now;
    }
    return slots;
  }

  private void offerSlots() {
    SchedulerBackend backend = backend();
    if (backend != null) {
      backend.reviveOffers();
    }
  }

  /** What makes a scheduler offer its slots; null where it cannot be reached. */
  private SchedulerBackend backend() {
    return Safely.get("offering slots after a change of pools", null,
        () -> (SchedulerBackend) SparkInternals.get(scheduler, "backend"));
  }
}
