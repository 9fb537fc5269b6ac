package org.iqcar.spark.executor;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectStreamClass;
import java.util.Base64;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.TaskCompletionListener;
import org.iqcar.spark.events.PluginMetrics;
import org.iqcar.spark.events.RecordTotals;
import org.iqcar.spark.events.TaskRecordAccumulator;
import org.iqcar.spark.executor.host.HostSampler;
import org.iqcar.spark.executor.measure.Sampler;
import org.iqcar.spark.executor.measure.TaskWatch;
import org.iqcar.spark.executor.threads.KernelThread;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.settings.Settings;

/**
 * The executor's half of the plugin: watches every task and samples the host.
 *
 * <p>{@link #init} runs before the executor accepts tasks. An exception there would end the
 * executor, so it throws none. {@link #onTaskStart} runs in the task's own thread. Spark would log
 * an exception for every task, so it throws none and counts its failures.
 */
public final class ExecutorSide implements ExecutorPlugin {
  private static final String DRIVER = "driver";

  private final HostSampler.Sender toDriver;
  private final RecordTotals totals = new RecordTotals();
  private Sampler sampler;
  private HostSampler hostSampler;
  private byte[] accumulator;
  private volatile boolean ended;

  /**
   * @param toDriver sends samples in local mode: the driver is in this JVM then, and would lose
   *     messages to itself while it stops
   */
  public ExecutorSide(HostSampler.Sender toDriver) {
    this.toDriver = toDriver;
  }

  @Override
  public void init(PluginContext context, Map<String, String> extra) {
    boolean local = DRIVER.equals(context.executorID());
    Safely.run("starting on the executor", () -> {
      start(context.conf(), extra.get(TaskRecordAccumulator.NAME), local ? toDriver : context::ask);
      PluginMetrics metrics = new PluginMetrics(context.metricRegistry(), "executor");
      if (sampler != null) {
        totals.gauges(metrics);
        sampler.gauges(metrics);
      }
      if (hostSampler != null) {
        metrics.count("host_samples_dropped", hostSampler::dropped);
      }
      if (sampler != null && !local) {
        metrics.failures();
      }
    });
  }

  /**
   * Starts watching, unless the settings or the driver's half switched it off.
   *
   * @param sent the driver's accumulator; null where the driver's half sent none
   */
  public void start(SparkConf conf, String sent, HostSampler.Sender sender) {
    Settings settings = Settings.from(conf);
    if (!settings.enabled || sent == null) {
      return;
    }
    sampler = new Sampler(settings);
    sampler.start();
    accumulator = Base64.getDecoder().decode(sent);
    if (settings.host) {
      hostSampler = new HostSampler(settings, sender);
      hostSampler.start();
    }
  }

  @Override
  public void onTaskStart() {
    if (!Safely.run("a task's start", this::watch)) {
      totals.missed();
    }
  }

  private void watch() throws IOException, ClassNotFoundException {
    TaskContext context = TaskContext.get();
    if (accumulator != null && context != null) {
      // AccumulatorV2.readObject registers the copy with this task.
      TaskRecordAccumulator carrier = (TaskRecordAccumulator) deserialise(accumulator);
      TaskWatch watch = sampler.watch(context);
      // Spark calls the first registered callback last, so the record includes the others' work.
      context.addTaskCompletionListener((TaskCompletionListener) same -> end(watch, carrier));
      sampler.add(watch);
    }
  }

  private void end(TaskWatch watch, TaskRecordAccumulator carrier) {
    sampler.remove(watch);
    boolean recorded = Safely.run("a task's end", () -> {
      SparkEnv env = SparkEnv.get();
      // Read here because in local mode the block manager has no id yet during init.
      BlockManagerId id = env.blockManager().blockManagerId();
      String record = watch.close(id.host(), env.executorId(), sampler.trouble());
      carrier.add(record);
      totals.add(record);
    });
    if (!recorded) {
      totals.missed();
    }
    Safely.run("closing a task's kernel files", () -> {
      watch.release();
      if (ended) {
        KernelThread.closeIdle();
      }
    });
  }

  @Override
  public void onTaskSucceeded() {}

  @Override
  public void onTaskFailed(TaskFailedReason reason) {}

  @Override
  public void shutdown() {
    ended = true;
    Safely.run("ending the sampler", () -> {
      if (sampler != null) {
        sampler.stop();
      }
    });
    Safely.run("closing kernel files", KernelThread::closeIdle);
    Safely.run("ending samples", () -> {
      if (hostSampler != null) {
        hostSampler.stop();
      }
    });
  }

  private static Object deserialise(byte[] bytes) throws IOException, ClassNotFoundException {
    try (InputStream in = new ByteArrayInputStream(bytes);
        ObjectInputStream objects = new ObjectInputStream(in) {
          @Override
          protected Class<?> resolveClass(ObjectStreamClass type) throws ClassNotFoundException {
            // With --jars, only the class loader of the jar knows these classes.
            return Class.forName(type.getName(), false, ExecutorSide.class.getClassLoader());
          }
        }) {
      return objects.readObject();
    }
  }
}
