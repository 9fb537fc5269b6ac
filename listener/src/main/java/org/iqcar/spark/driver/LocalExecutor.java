package org.iqcar.spark.driver;

import java.io.IOException;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.internal.plugin.PluginContainer;
import org.iqcar.spark.executor.ExecutorSide;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;
import org.iqcar.spark.settings.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Watches the tasks of local mode when only the listener is configured.
 *
 * <p>The executor is in this JVM, but it loads its plugins before any listener exists. So this
 * class replaces the executor's plugin container, a private field of Spark, and calls the plugins
 * that were in it. Where the field cannot be reached, or Java lets nobody replace one that is final,
 * tasks are not measured and the rest works.
 */
final class LocalExecutor extends PluginContainer {
  private static final Logger LOG = LoggerFactory.getLogger(LocalExecutor.class);
  private static final String ENDPOINT = "LocalSchedulerBackendEndpoint";

  private final ExecutorSide tasks = new ExecutorSide(Application::post);
  private final PluginContainer others;

  private LocalExecutor(PluginContainer others) {
    this.others = others;
  }

  /** Replaces the plugin container, or says that tasks are not measured. */
  static void tryToWatch(SparkConf conf) {
    Safely.run("watching the tasks of local mode", () -> {
      try {
        watch(conf);
      } catch (IllegalAccessException refused) {
        LOG.warn("iqcar: tasks are not measured: this Java lets nobody replace a final field ({}); "
            + "set {}={}", refused.getMessage(), Settings.PLUGINS, Settings.PLUGIN);
      }
    });
  }

  /** Replaces the plugin container; called while the context is being made, before any task. */
  private static void watch(SparkConf conf) throws ReflectiveOperationException, IOException {
    String master = conf.get("spark.master", "");
    if (!master.equals("local") && !master.startsWith("local[")) {
      LOG.info("iqcar: pools and slots are recorded; tasks are measured only with {}={}",
          Settings.PLUGINS, Settings.PLUGIN);
      return;
    }
    SparkInternals.checkOverrides(LocalExecutor.class);
    SparkContext sc = SparkInternals.contextBeingMade();
    Object executor = executor(sc);
    scala.Option<?> before = (scala.Option<?>) SparkInternals.get(executor, "plugins");
    LocalExecutor watcher = new LocalExecutor(
        before.isDefined() ? (PluginContainer) before.get() : null);
    SparkInternals.field(executor, "plugins").set(executor, scala.Option.apply(watcher));
    watcher.tasks.start(conf, Application.begin(sc), Application::post);
  }

  private static Object executor(SparkContext sc) throws ReflectiveOperationException {
    Object dispatcher = SparkInternals.get(sc.env().rpcEnv(), "dispatcher");
    Object loop = ((Map<?, ?>) SparkInternals.get(dispatcher, "endpoints")).get(ENDPOINT);
    Object inbox = ((Map<?, ?>) SparkInternals.get(loop, "endpoints")).get(ENDPOINT);
    return SparkInternals.get(SparkInternals.get(inbox, "endpoint"), "executor");
  }

  @Override
  public void onTaskStart() {
    tasks.onTaskStart();
    if (others != null) {
      others.onTaskStart();
    }
  }

  @Override
  public void onTaskSucceeded() {
    if (others != null) {
      others.onTaskSucceeded();
    }
  }

  @Override
  public void onTaskFailed(TaskFailedReason reason) {
    if (others != null) {
      others.onTaskFailed(reason);
    }
  }

  @Override
  public void registerMetrics(String applicationId) {
    if (others != null) {
      others.registerMetrics(applicationId);
    }
  }

  @Override
  public void shutdown() {
    tasks.shutdown();
    Application.forget();
    if (others != null) {
      others.shutdown();
    }
  }
}
