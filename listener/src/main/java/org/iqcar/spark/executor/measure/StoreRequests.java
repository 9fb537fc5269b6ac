package org.iqcar.spark.executor.measure;

import java.lang.reflect.Method;
import java.util.Map;
import org.iqcar.spark.events.TaskRecord;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;

/**
 * What Hadoop's clients of object stores counted for the streams that a task opened: its
 * {@code IOStatisticsContext}, from Hadoop 3.3.5 on. Called by the task's own thread.
 *
 * <p>A stream adds its counts when it is closed, also those of requests that other threads sent for
 * it. A client resets them now and then: then what it has counted since is the task's.
 */
final class StoreRequests {
  private static final String CONTEXT = "org.apache.hadoop.fs.statistics.IOStatisticsContext";
  private static final String MEAN = ".mean";
  private static final String READING = "reading the requests to object stores";
  private static final int REQUESTS = 0;
  private static final int MILLIS = 1;
  private static final int RETRIES = 2;
  /** Null where Hadoop is older. */
  private static final Method CURRENT = current();

  /** Held, because Hadoop's own reference to it is weak: a collection would lose the counts. */
  private final Object context =
      CURRENT == null ? null : Safely.get(READING, null, () -> CURRENT.invoke(null));
  private final long[] before = read();

  private static Method current() {
    try {
      return Class.forName(CONTEXT).getMethod("getCurrentIOStatisticsContext");
    } catch (ReflectiveOperationException | LinkageError older) {
      return null;
    }
  }

  /** Requests, their ms and retries of this thread so far; null if not told. */
  private long[] read() {
    return context == null ? null : Safely.get(READING, null, () -> {
      Object found = SparkInternals.call(context, "getIOStatistics");
      return found == null ? null : sums((Map<?, ?>) SparkInternals.call(found, "counters"),
          (Map<?, ?>) SparkInternals.call(found, "meanStatistics"));
    });
  }

  private static long[] sums(Map<?, ?> counters, Map<?, ?> means)
      throws ReflectiveOperationException {
    long[] found = new long[3];
    for (Map.Entry<?, ?> one : means.entrySet()) {
      if (isRequest(one.getKey().toString())) {
        found[REQUESTS] += (Long) SparkInternals.call(one.getValue(), "getSamples");
        found[MILLIS] += (Long) SparkInternals.call(one.getValue(), "getSum");
      }
    }
    for (Map.Entry<?, ?> one : counters.entrySet()) {
      if (isRetry(one.getKey().toString())) {
        found[RETRIES] += ((Number) one.getValue()).longValue();
      }
    }
    return found;
  }

  /** Whether a mean is of requests' durations, failed ones included. */
  static boolean isRequest(String name) {
    return name.endsWith(MEAN) && (name.startsWith("action_http_")
        || name.startsWith("object_") || name.startsWith("multipart_upload_"));
  }

  /** Whether a counter is of streams that broke, which are opened again. */
  static boolean isRetry(String name) {
    return name.equals("stream_read_exceptions") || name.equals("stream_write_exceptions")
        || name.endsWith("_retry") || name.endsWith("_retries");
  }

  /** Adds what was counted since this was made; nothing where no request was. */
  void end(TaskRecord record) {
    long[] now = before == null ? null : read();
    if (now == null) {
      return;
    }
    boolean reset = now[REQUESTS] < before[REQUESTS];
    String[] names = {"store_requests", "store_request_ms", "store_retries"};
    for (int i = 0; i < names.length; i++) {
      long grown = reset ? now[i] : Math.max(0, now[i] - before[i]);
      record.known(names[i], grown, grown > 0);
    }
  }
}
