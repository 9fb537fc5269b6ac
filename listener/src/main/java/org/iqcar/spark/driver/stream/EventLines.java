package org.iqcar.spark.driver.stream;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import org.apache.spark.Success$;
import org.apache.spark.scheduler.SparkListenerBlockUpdated;
import org.apache.spark.scheduler.SparkListenerEnvironmentUpdate;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/**
 * Writes events as lines of the event log, and takes the secrets out of them for those
 * who read them: a regular expression for each of a thousand properties would hold Spark's queue of
 * events up for more than a second while the JVM is cold.
 */
final class EventLines {
  private final Object protocol;
  private final Method write;
  /** Spark's json4s, which turns what Spark 3.3 writes into text; null from 3.4 on. */
  private final Object json4s;
  private final Method compact;
  private final PropertySecrets secrets;

  /**
   * Finds out how this Spark writes events.
   *
   * @param secrets finds the secrets of properties
   */
  EventLines(PropertySecrets secrets) throws ReflectiveOperationException {
    this.secrets = secrets;
    ClassLoader loader = SparkListenerEvent.class.getClassLoader();
    Class<?> type = Class.forName("org.apache.spark.util.JsonProtocol$", true, loader);
    protocol = type.getField("MODULE$").get(null);
    Method found;
    Object methods = null;
    Method text = null;
    try {
      found = type.getMethod("sparkEventToJsonString", SparkListenerEvent.class);
    } catch (NoSuchMethodException older) {
      found = type.getMethod("sparkEventToJson", SparkListenerEvent.class);
      Class<?> json = Class.forName("org.json4s.jackson.JsonMethods$", true, loader);
      methods = json.getField("MODULE$").get(null);
      text = json.getMethod("compact", found.getReturnType());
    }
    write = found;
    json4s = methods;
    compact = text;
  }

  /** One event as a line, with its secrets. */
  KeptLines.Line line(SparkListenerEvent event) throws ReflectiveOperationException {
    Object written = write.invoke(protocol, event);
    String line = compact == null ? (String) written : (String) compact.invoke(json4s, written);
    return new KeptLines.Line(line, holdsProperties(event), holdsTexts(event));
  }

  /** The bytes of a line without secrets. */
  byte[] withoutSecrets(KeptLines.Line line) throws IOException {
    if (!line.holdsProperties && !line.holdsTexts) {
      return line.bytes;
    }
    String text = new String(line.bytes, StandardCharsets.UTF_8).trim();
    String kept = line.holdsProperties ? secrets.redacted(text) : text;
    return new KeptLines.Line(PropertySecrets.redactTexts(kept), false, false).bytes;
  }

  /** Whether an event can hold what users wrote; most are of tasks that went well. */
  private static boolean holdsTexts(SparkListenerEvent event) {
    boolean plain = event instanceof SparkListenerTaskStart
        || event instanceof SparkListenerExecutorMetricsUpdate
        || event instanceof SparkListenerBlockUpdated;
    return !plain && !(event instanceof SparkListenerTaskEnd
        && ((SparkListenerTaskEnd) event).reason() == Success$.MODULE$);
  }

  private static boolean holdsProperties(SparkListenerEvent event) {
    return event instanceof SparkListenerEnvironmentUpdate
        || event instanceof SparkListenerJobStart || event instanceof SparkListenerStageSubmitted;
  }
}
