package org.iqcar.spark;

import java.lang.ref.WeakReference;
import org.apache.spark.ExecutorAllocationClient;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.iqcar.spark.host.HostSampler;
import org.iqcar.spark.rules.Rules;
import org.iqcar.spark.rules.RulesRefused;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.safety.SparkInternals;
import org.iqcar.spark.settings.Settings;

/**
 * Writes the scheduler's pools and slots into the event log, at the first stage, at each later
 * stage before which they changed and when other rules act, the executors that dynamic allocation
 * wants, and when SQL executions were planned. Where the plugin is not configured it also applies
 * rules and, in local mode, measures the tasks.
 *
 * <p>Configured by {@code spark.extraListeners=org.iqcar.spark.IqcarListener}, or added by the
 * plugin. Callbacks run on the listener bus's own thread: they read no file, wait for no answer,
 * and take only locks that are held for a moment.
 */
public final class IqcarListener extends SparkListener {
  static final String PLUGINS = "spark.plugins";
  /** Spark's queue of listeners that are configured or added. */
  private static final String QUEUE = "shared";

  /** Configuration of the last application that has an active listener: one is enough. */
  private static WeakReference<SparkConf> configured = new WeakReference<>(null);

  private final boolean active;
  /** Rules that this listener applies; null where the plugin does, or where there are none. */
  private final Rules rules;
  private final SlotCount slots = new SlotCount();
  private String lastState = "";
  /** Known from the first stage on. */
  private DropNews drops;
  /** Events that Spark had dropped of this queue when executors were last counted; −1: never. */
  private long missed = -1;
  private boolean lookedForTarget;
  private ExecutorTarget target;
  private final QueryPhases phases = new QueryPhases();
  /** False once no end of a query could be read: another version of Spark, which will not change. */
  private boolean phasesKnown = true;

  public IqcarListener(SparkConf conf) {
    boolean use = false;
    Rules late = null;
    try {
      Faults.at("listener.new");
      use = Settings.from(conf).enabled && firstOf(conf);
      if (use && !conf.get(PLUGINS, "").contains(IqcarPlugin.class.getName())) {
        LocalExecutor.tryToWatch(conf);
        SparkContext sc = SparkInternals.contextBeingMade();
        late = Rules.applyLate(conf, news -> DriverSide.postRules(sc, news));
      }
    } catch (RulesRefused strict) {
      throw strict;
    } catch (Throwable failure) {
      Failures.note("starting the listener", failure);
    }
    active = use;
    rules = late;
  }

  /** Whether this is the application's first listener: all are given the same object. */
  private static synchronized boolean firstOf(SparkConf conf) {
    boolean first = configured.get() != conf;
    configured = new WeakReference<>(conf);
    return first;
  }

  @Override
  public void onExecutorAdded(SparkListenerExecutorAdded event) {
    guarded("onExecutorAdded",
        () -> {
          slots.add(event.executorId(), event.executorInfo().totalCores());
          DriverSide.executors(slots.executors());
        });
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    guarded("onExecutorRemoved", () -> {
      slots.remove(event.executorId());
      DriverSide.executors(slots.executors());
    });
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    guarded("onStageSubmitted", () -> {
      scala.Option<SparkContext> context = SparkContext$.MODULE$.getActive();
      if (context.isDefined()) {
        watchTarget(context.get());
        lookForDrops(context.get());
        postState(context.get());
      }
    });
  }

  /**
   * A SQL execution ended: how it was planned is written. Or other rules act: pools that run tasks
   * have changed, and maybe no stage will be submitted.
   */
  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    guarded("onOtherEvent", () -> {
      if (event instanceof IqcarEventRules) {
        scala.Option<SparkContext> context = SparkContext$.MODULE$.getActive();
        if (context.isDefined() && !lastState.isEmpty()) {
          postState(context.get());
        }
      } else {
        postPhases(event);
      }
    });
  }

  private void postPhases(SparkListenerEvent event) {
    if (!phasesKnown) {
      return;
    }
    try {
      IqcarEventPhases known = phases.of(event, System.currentTimeMillis());
      scala.Option<SparkContext> context = SparkContext$.MODULE$.getActive();
      if (known != null && context.isDefined()) {
        context.get().listenerBus().post(known);
      }
    } catch (ReflectiveOperationException | RuntimeException failure) {
      phasesKnown = false;
      Failures.note("reading the end of a query", failure);
    }
  }

  private void postState(SparkContext sc) {
    IqcarEventScheduler state = SchedulerState.read(sc, slots, System.currentTimeMillis());
    if (!state.describe().equals(lastState)) {
      lastState = state.describe();
      sc.listenerBus().post(state);
    }
  }

  /** Says what Spark has dropped, and corrects what that has made wrong here. */
  private void lookForDrops(SparkContext sc) {
    if (drops == null) {
      drops = new DropNews(sc);
    }
    drops.look();
    long now = drops.counts().of(QUEUE);
    if (now != missed) {
      missed = now;
      countExecutors(sc);
    }
  }

  private void countExecutors(SparkContext sc) {
    Failures.attempt("counting executors anew", () -> {
      if (sc.schedulerBackend() instanceof ExecutorAllocationClient) {
        slots.become(SparkInternals.sequence(sc.schedulerBackend(), "getExecutorIds"));
        DriverSide.executors(slots.executors());
      }
    });
  }

  /** Before the first stage no task waits, and nothing is asked for but what settings say. */
  private void watchTarget(SparkContext sc) {
    if (!lookedForTarget) {
      lookedForTarget = true;
      Failures.attempt("finding the executors wanted", () -> target = ExecutorTarget.watch(sc));
    }
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd event) {
    guarded("onApplicationEnd", () -> {
      if (target != null) {
        target.stop();
      }
      if (rules != null) {
        rules.stop();
      }
      HostSampler.flushLocal();
      if (drops != null) {
        drops.say();
      }
    });
  }

  private void guarded(String place, Failures.Work action) {
    if (active) {
      Failures.attempt(place, action);
    }
  }
}
