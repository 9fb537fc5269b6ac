package org.iqcar.spark;

import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The settings of one application. An unreadable value is reported and its default used. */
final class Settings {
  private static final Logger LOG = LoggerFactory.getLogger(Settings.class);
  private static final Pattern TIME = Pattern.compile("(\\d+)\\s*(us|ms|s|m|min)?");

  final boolean enabled;
  final long samplePeriodNanos;
  final int sampleDepth;
  final long profileBucketNanos;
  final int profileBuckets;
  final int profileBytes;
  final boolean contention;
  final boolean python;
  final boolean host;
  final long hostPeriodNanos;
  /** Null: what PySpark uses. */
  final String hostPython;
  final String proc;
  /** Null: no rules. */
  final String rules;
  final boolean rulesStrict;

  /**
   * @param values value of a key, or null where it is not set
   */
  Settings(Function<String, String> values) {
    enabled = bool(values, Setting.ENABLED);
    samplePeriodNanos = nanos(values, Setting.SAMPLE_PERIOD);
    sampleDepth = count(values, Setting.SAMPLE_DEPTH, 1);
    profileBucketNanos = nanos(values, Setting.PROFILE_BUCKET);
    profileBuckets = count(values, Setting.PROFILE_BUCKETS, 2);
    profileBytes = count(values, Setting.PROFILE_BYTES, 100);
    contention = bool(values, Setting.CONTENTION);
    python = bool(values, Setting.PYTHON);
    host = bool(values, Setting.HOST);
    hostPeriodNanos = Math.max(100_000_000L, nanos(values, Setting.HOST_PERIOD));
    String named = values.apply(Setting.HOST_PYTHON.key());
    hostPython = Setting.HOST_PYTHON.fallback().equals(named) ? null : named;
    String path = values.apply(Setting.PROC.key());
    proc = path == null ? Setting.PROC.fallback() : path;
    String file = values.apply(Setting.RULES.key());
    rules = file == null || file.trim().isEmpty() || Setting.RULES.fallback().equals(file.trim())
        ? null : file.trim();
    rulesStrict = bool(values, Setting.RULES_STRICT);
  }

  /** The settings in a Spark configuration. */
  static Settings of(org.apache.spark.SparkConf conf) {
    return new Settings(key -> conf.get(key, null));
  }

  private static <T> T read(
      Function<String, String> values, Setting setting, Function<String, T> parse) {
    String value = values.apply(setting.key());
    if (value != null) {
      try {
        return parse.apply(value.trim().toLowerCase(java.util.Locale.ROOT));
      } catch (IllegalArgumentException | ArithmeticException e) {
        LOG.warn("iqcar: {} = {} cannot be read ({}); using {}",
            setting.key(), value, e.getMessage(), setting.fallback());
      }
    }
    return parse.apply(setting.fallback());
  }

  private static boolean bool(Function<String, String> values, Setting setting) {
    return read(values, setting, text -> {
      if (text.equals("true") || text.equals("false")) {
        return text.equals("true");
      }
      throw new IllegalArgumentException("expected true or false");
    });
  }

  private static int count(Function<String, String> values, Setting setting, int least) {
    return read(values, setting, text -> {
      int number = Integer.parseInt(text);
      if (number < least) {
        throw new IllegalArgumentException("expected at least " + least);
      }
      return number;
    });
  }

  /** A time such as 20ms, 1s, 500us; a bare number is milliseconds, as Spark reads it. */
  private static long nanos(Function<String, String> values, Setting setting) {
    return read(values, setting, text -> {
      Matcher match = TIME.matcher(text);
      if (!match.matches()) {
        throw new IllegalArgumentException("expected a time such as 20ms or 1s");
      }
      long number = Long.parseLong(match.group(1));
      String unit = match.group(2) == null ? "ms" : match.group(2);
      switch (unit) {
        case "us": return Math.multiplyExact(number, 1_000L);
        case "ms": return Math.multiplyExact(number, 1_000_000L);
        case "s": return Math.multiplyExact(number, 1_000_000_000L);
        default: return Math.multiplyExact(number, 60_000_000_000L);
      }
    });
  }
}
