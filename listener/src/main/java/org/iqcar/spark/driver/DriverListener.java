package org.iqcar.spark.driver;

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
import org.iqcar.spark.IqcarEventPhases;
import org.iqcar.spark.IqcarEventRules;
import org.iqcar.spark.driver.rules.Rules;
import org.iqcar.spark.executor.host.HostSampler;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;
import org.iqcar.spark.settings.Settings;

/**
 * Writes the scheduler's pools and slots into the event log, at the first stage, at each later
 * stage before which they changed and when other rules act, the executors that dynamic allocation
 * wants, and when SQL executions were planned. Where the plugin is not configured it also applies
 * rules and, in local mode, measures the tasks.
 *
 * <p>Callbacks run on the listener bus's own thread: they read no file, wait for no answer, and take
 * only locks that are held for a moment.
 */
public class DriverListener extends SparkListener {
  /** Spark's queue of listeners that are configured or added. */
  private static final String QUEUE = "shared";

  /** Configuration of the last application that has an active listener: one is enough. */
  private static WeakReference<SparkConf> configured = new WeakReference<>(null);

  private final boolean active;
  /** Rules that this listener applies; null where the plugin does, or where there are none. */
  private final Rules rules;
  private final SchedulerState state = new SchedulerState();
  private final QueryPhases phases = new QueryPhases();
  /** Known from the first stage on. */
  private DropNews drops;
  /** Events that Spark had dropped of this queue when executors were last counted; −1: never. */
  private long missed = -1;
  /** Whether {@link #target} was looked for; it is null without dynamic allocation. */
  private boolean lookedForTarget;
  private ExecutorTarget target;
  /** False once no end of a query could be read: another version of Spark, which will not change. */
  private boolean phasesKnown = true;

  protected DriverListener(SparkConf conf) {
    active = Safely.get("starting the listener", false, () ->
        Settings.from(conf).enabled && firstOf(conf));
    boolean alone = active && !conf.get(Settings.PLUGINS, "").contains(Settings.PLUGIN);
    if (alone) {
      LocalExecutor.tryToWatch(conf);
    }
    rules = alone ? Rules.late(conf) : null;
  }

  /** Whether this is the application's first listener: all are given the same object. */
  private static synchronized boolean firstOf(SparkConf conf) {
    boolean first = configured.get() != conf;
    configured = new WeakReference<>(conf);
    return first;
  }

  @Override
  public void onExecutorAdded(SparkListenerExecutorAdded event) {
    guarded("onExecutorAdded", () -> {
      state.add(event.executorId(), event.executorInfo().totalCores());
      Application.executors(state.executors());
    });
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    guarded("onExecutorRemoved", () -> {
      state.remove(event.executorId());
      Application.executors(state.executors());
    });
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    guarded("onStageSubmitted", () -> {
      SparkContext sc = running();
      if (sc != null) {
        watchTarget(sc);
        lookForDrops(sc);
        state.tell(sc);
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
      SparkContext sc = running();
      if (event instanceof IqcarEventRules) {
        if (sc != null && state.isTold()) {
          state.tell(sc);
        }
      } else if (phasesKnown) {
        phasesKnown = Safely.run("reading the end of a query", () -> {
          IqcarEventPhases known = phases.of(event, System.currentTimeMillis());
          if (known != null && sc != null) {
            sc.listenerBus().post(known);
          }
        });
      }
    });
  }

  /** The application that runs in this JVM; null before it has begun. */
  private static SparkContext running() {
    scala.Option<SparkContext> context = SparkContext$.MODULE$.getActive();
    return context.isDefined() ? context.get() : null;
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
      Safely.run("counting executors anew", () -> {
        if (sc.schedulerBackend() instanceof ExecutorAllocationClient) {
          state.become(SparkInternals.sequence(sc.schedulerBackend(), "getExecutorIds"));
          Application.executors(state.executors());
        }
      });
    }
  }

  /** Before the first stage no task waits, and nothing is asked for but what settings say. */
  private void watchTarget(SparkContext sc) {
    if (!lookedForTarget) {
      lookedForTarget = true;
      Safely.run("finding the executors wanted", () -> target = ExecutorTarget.watch(sc));
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

  private void guarded(String place, Safely.Work action) {
    if (active) {
      Safely.run(place, action);
    }
  }
}
