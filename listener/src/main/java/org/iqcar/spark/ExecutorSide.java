package org.iqcar.spark;

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
import org.iqcar.spark.eventlog.RecordTotals;
import org.iqcar.spark.eventlog.TaskRecordAccumulator;
import org.iqcar.spark.host.HostSampler;
import org.iqcar.spark.measure.Sampler;
import org.iqcar.spark.measure.TaskWatch;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.threads.KernelThread;

/**
 * The executor's half of the plugin: watches every task and samples the host.
 *
 * <p>{@link #init} runs before the executor accepts tasks. An exception there would end the
 * executor, so it throws none. {@link #onTaskStart} runs in the task's own thread. Spark would log
 * an exception for every task, so it throws none and counts its failures.
 */
public final class ExecutorSide implements ExecutorPlugin {
  /** Key under which the driver sends the serialised accumulator. */
  static final String ACCUMULATOR = "accumulator";

  private final RecordTotals totals = new RecordTotals();
  private Settings settings;
  private Sampler sampler;
  private HostSampler hostSampler;
  private byte[] accumulator;
  private volatile boolean ended;

  @Override
  public void init(PluginContext context, Map<String, String> extra) {
    try {
      Faults.at("executor.init");
      // In local mode the driver is in this JVM and would lose messages to itself while it stops.
      start(context.conf(), extra, "driver".equals(context.executorID())
          ? DriverSide::post : context::ask);
      if (settings != null) {
        register(context);
      }
    } catch (Throwable failure) {
      Failures.note("starting on the executor", failure);
    }
  }

  private void register(PluginContext context) {
    PluginMetrics metrics = new PluginMetrics(context.metricRegistry(), "executor");
    metrics.records(totals);
    metrics.sampler(sampler);
    if (hostSampler != null) {
      metrics.host(hostSampler);
    }
    if (!"driver".equals(context.executorID())) {
      metrics.failures();
    }
  }

  /** Starts watching, unless the settings or the driver's half switched it off. */
  void start(SparkConf conf, Map<String, String> extra, HostSampler.Sender sender) {
    Settings read = Settings.from(conf);
    String sent = extra.get(ACCUMULATOR);
    if (!read.enabled || sent == null) {
      return;
    }
    settings = read;
    sampler = new Sampler(read);
    sampler.start();
    accumulator = Base64.getDecoder().decode(sent);
    if (read.host) {
      hostSampler = new HostSampler(read, sender);
      hostSampler.start();
    }
  }

  @Override
  public void onTaskStart() {
    try {
      Faults.at("onTaskStart");
      TaskContext context = TaskContext.get();
      if (accumulator != null && context != null) {
        // AccumulatorV2.readObject registers the copy with this task.
        TaskRecordAccumulator carrier = (TaskRecordAccumulator) deserialise(accumulator);
        TaskWatch watch = sampler.watch(context);
        // Spark calls the first registered callback last, so the record includes the others' work.
        context.addTaskCompletionListener(
            (TaskCompletionListener) same -> end(same, watch, carrier));
        sampler.add(watch);
      }
    } catch (Throwable failure) {
      totals.missed();
      Failures.note("a task's start", failure);
    }
  }

  private void end(TaskContext context, TaskWatch watch, TaskRecordAccumulator carrier) {
    try {
      sampler.remove(watch);
      Faults.at("taskCompletion");
      SparkEnv env = SparkEnv.get();
      // Read here because in local mode the block manager has no id yet during init.
      BlockManagerId id = env.blockManager().blockManagerId();
      String record = watch.close(id.host(), env.executorId(), sampler.trouble());
      carrier.add(record);
      totals.add(record);
    } catch (Throwable failure) {
      totals.missed();
      Failures.note("a task's end", failure);
    }
    Failures.attempt("closing a task's kernel files", () -> {
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
    Failures.attempt("ending the sampler", () -> {
      if (sampler != null) {
        sampler.stop();
      }
    });
    Failures.attempt("closing kernel files", KernelThread::closeIdle);
    Failures.attempt("ending samples", () -> {
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
