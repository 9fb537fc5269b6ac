package org.iqcar.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.iqcar.spark.eventlog.RecordTotals;
import org.iqcar.spark.eventlog.TaskRecordAccumulator;
import org.iqcar.spark.host.HostSampler;
import org.iqcar.spark.rules.RuleNews;
import org.iqcar.spark.rules.Rules;
import org.iqcar.spark.rules.RulesRefused;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.safety.OwnThread;
import org.iqcar.spark.settings.Setting;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.stream.LiveStream;

/**
 * The driver's half of the plugin: registers the accumulator that carries task records, adds the
 * listener where it is not configured, and applies rules.
 */
public final class DriverSide implements DriverPlugin {
  private static final String LISTENERS = "spark.extraListeners";
  /** Longest time for which the application's end waits for the plugin's; it takes milliseconds. */
  private static final int STOP_MS = 2_000;
  private static final String STREAM_END = "iqcar-live-end";

  /** Held here because Spark keeps only a weak reference to an accumulator. */
  private static volatile TaskRecordAccumulator accumulator;
  private static volatile SparkContext application;
  /** Executors that send samples; 1 until the first is known. */
  private static volatile int executors = 1;
  private static volatile int sampleBytes = Integer.parseInt(Setting.HOST_BYTES.fallback());

  private Rules rules;
  private LiveStream stream;

  @Override
  public Map<String, String> init(SparkContext sc, PluginContext context) {
    Map<String, String> extra = Collections.emptyMap();
    try {
      Faults.at("driver.init");
      SparkConf conf = sc.conf();
      Failures.attempt("sending the jar to executors", () -> OwnJar.offer(sc));
      if (!Settings.from(conf).enabled) {
        return extra;
      }
      String listener = IqcarListener.class.getName();
      boolean configured = false;
      for (String name : conf.get(LISTENERS, "").split(",")) {
        configured |= name.trim().equals(listener);
      }
      if (!configured) {
        sc.addSparkListener(new IqcarListener(conf));
      }
      Map<String, String> registered = new HashMap<>();
      Failures.attempt("registering the records", () -> registered.putAll(register(sc)));
      extra = registered;
      readRules(sc);
      Failures.attempt("streaming events", () -> stream = LiveStream.start(sc));
    } catch (RulesRefused strict) {
      forget();
      throw strict;
    } catch (Throwable failure) {
      Failures.note("starting on the driver", failure);
    }
    return extra;
  }

  private void readRules(SparkContext sc) {
    try {
      rules = Rules.before(sc);
    } catch (RulesRefused strict) {
      throw strict;
    } catch (Throwable failure) {
      Failures.note("reading rules", failure);
    }
  }

  /** Spark calls this when the scheduler exists and no job has been submitted yet. */
  @Override
  public void registerMetrics(String applicationId, PluginContext context) {
    if (rules != null) {
      rules.apply(news -> postRules(application, news));
    }
    Failures.attempt("giving metrics to Spark", () -> {
      TaskRecordAccumulator carrier = accumulator;
      if (carrier != null) {
        RecordTotals totals = new RecordTotals();
        new PluginMetrics(context.metricRegistry(), "application").records(totals);
        PluginMetrics own = new PluginMetrics(context.metricRegistry(), "driver");
        own.failures();
        if (rules != null && rules.counts() != null) {
          own.rules(rules.counts());
        }
        carrier.total(totals);
      }
    });
  }

  /** Registers the accumulator and returns its serialised form, which executors need. */
  static Map<String, String> register(SparkContext sc) throws IOException {
    TaskRecordAccumulator.noteIfNotAsked();
    TaskRecordAccumulator carrier = new TaskRecordAccumulator();
    try {
      carrier.register(sc, scala.Option.apply(TaskRecordAccumulator.NAME), true);
    } catch (LinkageError changed) {
      Failures.note("registering the records of failed tasks", changed);
      sc.register(carrier, TaskRecordAccumulator.NAME);
    }
    accumulator = carrier;
    application = sc;
    executors = 1;
    sampleBytes = Settings.from(sc.conf()).hostBytes;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(carrier);
    }
    Map<String, String> extra = new HashMap<>();
    extra.put(
        ExecutorSide.ACCUMULATOR, Base64.getEncoder().encodeToString(bytes.toByteArray()));
    return extra;
  }

  /** Receives a batch of samples from an executor, which sends the next one after the answer. */
  @Override
  public Object receive(Object message) {
    try {
      if (message instanceof String[]) {
        return post((String[]) message);
      }
    } catch (Throwable failure) {
      Failures.note("receiving samples", failure);
    }
    return "";
  }

  /** Takes the number of executors, which share the bytes of an application's samples. */
  static void executors(int count) {
    executors = Math.max(1, count);
  }

  /**
   * Posts a batch of samples as an event for the event log, unless the application has ended.
   *
   * @return bytes a second that the sender's samples may take from now on
   */
  static String post(String[] batch) {
    SparkContext sc = application;
    if (sc != null) {
      sc.listenerBus().post(new IqcarEventSamples(batch));
    }
    return Float.toString(sampleBytes / 60f / executors);
  }

  /** Posts which rules act as an event for the event log. */
  static void postRules(SparkContext sc, RuleNews news) {
    if (sc != null && !sc.isStopped()) {
      sc.listenerBus().post(new IqcarEventRules(System.currentTimeMillis(), news));
    }
  }

  /** Drops the references to the application, which is ending. */
  static void forget() {
    accumulator = null;
    application = null;
  }

  /**
   * Ends all parts, and waits for that {@link #STOP_MS} at most. Followers that read slowly go on for
   * as long as the JVM lives and the stream lets them.
   */
  @Override
  public void shutdown() {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STOP_MS);
    Thread followers = OwnThread.of(STREAM_END, () -> {
      if (stream != null) {
        stream.stop();
      }
    });
    Failures.attempt(STREAM_END, followers::start);
    Failures.attempt("ending rules", () -> {
      if (rules != null) {
        rules.stop();
      }
    });
    // In local mode the executor stops later, when no event can be written any more.
    Failures.attempt("ending samples", HostSampler::stopCurrent);
    Failures.attempt("telling dropped events", () -> {
      if (application != null) {
        new DropNews(application).last();
      }
    });
    Failures.attempt(STREAM_END, () ->
        followers.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()))));
    forget();
  }
}
