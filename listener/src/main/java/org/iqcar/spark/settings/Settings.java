package org.iqcar.spark.settings;

import java.util.Locale;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.iqcar.spark.safety.LruMap;
import org.iqcar.spark.text.Printable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads the settings of one application. An unreadable value is logged and replaced. */
public final class Settings {
  /** Spark's setting of plugins, and the names of ours that users configure. */
  public static final String PLUGINS = "spark.plugins";
  public static final String PLUGIN = "org.iqcar.spark.IqcarPlugin";
  public static final String LISTENER = "org.iqcar.spark.IqcarListener";

  private static final Logger LOG = LoggerFactory.getLogger(Settings.class);
  private static final Pattern TIME = Pattern.compile("(\\d+)\\s*(us|ms|s|m|min)?");
  private static final Pattern PERCENT = Pattern.compile("(\\d{1,3}(?:\\.\\d{1,9})?)\\s*%?");
  /** With less, tasks of minutes end without a stack. */
  private static final double LEAST_PERCENT = 0.01;
  /** 1 ms: the kernel's clocks are no finer, and profiles hold whole milliseconds. */
  private static final long LEAST_NANOS = 1_000_000L;
  /** 1 day: sums of longer times would overflow. */
  private static final long MOST_NANOS = 86_400_000_000_000L;
  /** A profile takes up to 160 bytes of memory per interval and running task. */
  private static final int MOST_BUCKETS = 10_000;
  /** The driver holds the records of all tasks that run or wait to be logged. */
  private static final int MOST_PROFILE_BYTES = 1_000_000;
  /** Values already logged: driver, executor and listener of one JVM read the same settings. */
  private static final LruMap<String, Boolean> REPORTED = new LruMap<>(1_000);

  public final boolean enabled;
  public final long samplePeriodNanos;
  public final int sampleDepth;
  /** Most that sampling may cost, as part of the elapsed time. */
  public final double overhead;
  public final long profileBucketNanos;
  public final int profileBuckets;
  public final int profileBytes;
  public final boolean contention;
  public final boolean python;
  public final boolean host;
  public final long hostPeriodNanos;
  /** Bytes a minute, of the whole application. */
  public final int hostBytes;
  /** Null for the Python that PySpark uses. */
  public final String hostPython;
  public final String proc;
  /** Where events are streamed; null for nowhere. */
  public final String live;
  /** What who wants them must know; null for nothing. */
  public final String liveToken;
  /** Path or URL of the rules; null for none. */
  public final String rules;
  public final boolean rulesStrict;
  /** Time between two looks at the file of rules; 0 = it is not watched. */
  public final long rulesWatchNanos;

  /**
   * The settings among some values.
   *
   * @param values gives the value of a key, or null where it is not set
   */
  public Settings(Function<String, String> values) {
    enabled = bool(values, Setting.ENABLED);
    samplePeriodNanos = nanos(values, Setting.SAMPLE_PERIOD);
    sampleDepth = count(values, Setting.SAMPLE_DEPTH, 1, Integer.MAX_VALUE);
    overhead = share(values, Setting.OVERHEAD);
    profileBucketNanos = nanos(values, Setting.PROFILE_BUCKET) / LEAST_NANOS * LEAST_NANOS;
    profileBuckets = count(values, Setting.PROFILE_BUCKETS, 2, MOST_BUCKETS);
    profileBytes = count(values, Setting.PROFILE_BYTES, 100, MOST_PROFILE_BYTES);
    contention = bool(values, Setting.CONTENTION);
    python = bool(values, Setting.PYTHON);
    host = bool(values, Setting.HOST);
    hostPeriodNanos = Math.max(100_000_000L, nanos(values, Setting.HOST_PERIOD));
    hostBytes = count(values, Setting.HOST_BYTES, 10_000, Integer.MAX_VALUE);
    String named = values.apply(Setting.HOST_PYTHON.key);
    hostPython = Setting.HOST_PYTHON.fallback.equals(named) ? null : named;
    String path = values.apply(Setting.PROC.key);
    proc = path == null ? Setting.PROC.fallback : path;
    live = given(values, Setting.LIVE);
    liveToken = given(values, Setting.LIVE_TOKEN);
    rules = given(values, Setting.RULES);
    rulesStrict = bool(values, Setting.RULES_STRICT);
    long watch = nanos(values, Setting.RULES_WATCH);
    rulesWatchNanos = watch == 0 ? 0 : Math.max(100_000_000L, watch);
  }

  /** The settings in a Spark configuration. */
  public static Settings from(SparkConf conf) {
    return new Settings(key -> conf.get(key, null));
  }

  /** A text; null where it is not set, empty or "none". */
  private static String given(Function<String, String> values, Setting setting) {
    String value = values.apply(setting.key);
    String text = value == null ? "" : value.trim();
    return text.isEmpty() || setting.fallback.equals(text) ? null : text;
  }

  private static <T> T read(
      Function<String, String> values, Setting setting, Function<String, T> parse) {
    String value = values.apply(setting.key);
    if (value != null) {
      try {
        return parse.apply(value.trim().toLowerCase(Locale.ROOT));
      } catch (IllegalArgumentException | ArithmeticException e) {
        report(setting, Printable.line(value), String.valueOf(e.getMessage()));
      }
    }
    return parse.apply(setting.fallback);
  }

  private static void report(Setting setting, String value, String why) {
    synchronized (REPORTED) {
      if (REPORTED.put(setting.key + " " + value, true) != null) {
        return;
      }
    }
    LOG.warn("iqcar: {} = {} cannot be read ({}); using {}",
        setting.key, value, Printable.line(why), setting.fallback);
  }

  private static boolean bool(Function<String, String> values, Setting setting) {
    return read(values, setting, text -> {
      if (text.equals("true") || text.equals("false")) {
        return text.equals("true");
      }
      throw new IllegalArgumentException("expected true or false");
    });
  }

  private static int count(
      Function<String, String> values, Setting setting, int least, int most) {
    return read(values, setting, text -> {
      int number = Integer.parseInt(text);
      if (number < least || number > most) {
        throw new IllegalArgumentException("expected " + least + " to " + most);
      }
      return number;
    });
  }

  /** A share such as 1% or 0.5%; a bare number is in percent. */
  private static double share(Function<String, String> values, Setting setting) {
    return read(values, setting, text -> {
      Matcher match = PERCENT.matcher(text);
      double percent = match.matches() ? Double.parseDouble(match.group(1)) : 0;
      if (percent < LEAST_PERCENT || percent > 100) {
        throw new IllegalArgumentException("expected a share of 0.01% to 100%");
      }
      return percent / 100;
    });
  }

  /** A time such as 20ms, 1s, 1500us or 0, in ns; a bare number is in ms, as in Spark. */
  private static long nanos(Function<String, String> values, Setting setting) {
    return read(values, setting, text -> {
      Matcher match = TIME.matcher(text);
      if (!match.matches()) {
        throw new IllegalArgumentException("expected a time such as 20ms or 1s");
      }
      long nanos = Math.multiplyExact(
          Long.parseLong(match.group(1)), unit(match.group(2) == null ? "ms" : match.group(2)));
      if (nanos != 0 && (nanos < LEAST_NANOS || nanos > MOST_NANOS)) {
        throw new IllegalArgumentException("expected 0, or 1ms to 1440min");
      }
      return nanos;
    });
  }

  private static long unit(String name) {
    switch (name) {
      case "us": return 1_000L;
      case "ms": return 1_000_000L;
      case "s": return 1_000_000_000L;
      default: return 60_000_000_000L;
    }
  }
}
