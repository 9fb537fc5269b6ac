package org.iqcar.spark.driver;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.iqcar.spark.driver.rules.Rules;
import org.iqcar.spark.driver.rules.RulesRefused;
import org.iqcar.spark.driver.stream.LiveStream;
import org.iqcar.spark.events.PluginMetrics;
import org.iqcar.spark.events.RecordTotals;
import org.iqcar.spark.events.TaskRecordAccumulator;
import org.iqcar.spark.executor.host.HostSampler;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.settings.Settings;

/**
 * The driver's half of the plugin: registers the accumulator that carries task records, adds the
 * listener where it is not configured, applies rules, and streams events.
 */
public final class DriverSide implements DriverPlugin {
  /** Longest time for which the application's end waits for the plugin's; it takes milliseconds. */
  private static final int STOP_MS = 2_000;
  private static final String STREAM_END = "iqcar-live-end";

  private SparkContext sc;
  private Rules rules;
  private LiveStream stream;

  @Override
  public Map<String, String> init(SparkContext context, PluginContext plugin) {
    sc = context;
    Map<String, String> extra = new HashMap<>();
    if (Safely.get("starting on the driver", false, () -> start(extra))) {
      try {
        rules = Rules.before(sc);
      } catch (RulesRefused strict) {
        Application.forget();
        throw strict;
      }
      Safely.run("streaming events", () -> stream = LiveStream.start(sc));
    }
    return extra;
  }

  /** Whether the settings want the plugin; puts what executors need into {@code extra}. */
  private boolean start(Map<String, String> extra) {
    Safely.run("sending the jar to executors", () -> OwnJar.offer(sc));
    if (!Settings.from(sc.conf()).enabled) {
      return false;
    }
    String[] listeners = sc.conf().get("spark.extraListeners", "").split(",");
    if (Arrays.stream(listeners).noneMatch(name -> name.trim().equals(Settings.LISTENER))) {
      sc.addSparkListener(new DriverListener(sc.conf()));
    }
    Safely.run("registering the records", () ->
        extra.put(TaskRecordAccumulator.NAME, Application.begin(sc)));
    return true;
  }

  /** Spark calls this when the scheduler exists and no job has been submitted yet. */
  @Override
  public void registerMetrics(String applicationId, PluginContext context) {
    if (rules != null) {
      rules.start();
    }
    Safely.run("giving metrics to Spark", () -> {
      if (Application.current() != null) {
        RecordTotals totals = new RecordTotals();
        totals.gauges(new PluginMetrics(context.metricRegistry(), "application"));
        PluginMetrics own = new PluginMetrics(context.metricRegistry(), "driver");
        own.failures();
        if (rules != null) {
          rules.gauges(own);
        }
        Application.current().carrier.total(totals);
      }
    });
  }

  /** Receives a batch of samples from an executor, which sends the next one after the answer. */
  @Override
  public Object receive(Object message) {
    return Safely.get("receiving samples", "", () ->
        message instanceof String[] ? Application.post((String[]) message) : "");
  }

  /**
   * Ends all parts, and waits for that {@link #STOP_MS} at most. Followers that read slowly go on for
   * as long as the JVM lives and the stream lets them.
   */
  @Override
  public void shutdown() {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STOP_MS);
    Thread followers = Safely.thread(STREAM_END, () -> {
      if (stream != null) {
        stream.stop();
      }
    });
    Safely.run(STREAM_END, followers::start);
    Safely.run("ending rules", () -> {
      if (rules != null) {
        rules.stop();
      }
    });
    // In local mode the executor stops later, when no event can be written any more.
    Safely.run("ending samples", HostSampler::stopCurrent);
    Safely.run("telling dropped events", () -> {
      if (Application.current() != null) {
        new DropNews(sc).last();
      }
    });
    Safely.run(STREAM_END, () ->
        followers.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()))));
    Application.forget();
  }
}
