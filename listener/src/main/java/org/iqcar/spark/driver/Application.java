package org.iqcar.spark.driver;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.Base64;
import org.apache.spark.SparkContext;
import org.iqcar.spark.IqcarEventSamples;
import org.iqcar.spark.events.TaskRecordAccumulator;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.settings.Settings;

/** The application of this JVM, as far as records and samples of executors reach it. */
public final class Application {
  /** In local mode the executor's half finds it here; null where no records are carried. */
  private static volatile Application current;

  /** Held here because Spark keeps only a weak reference to an accumulator. */
  final TaskRecordAccumulator carrier = new TaskRecordAccumulator();
  private final SparkContext sc;
  private final int sampleBytes;
  /** Executors that send samples; 1 until the first is known. */
  private volatile int executors = 1;

  private Application(SparkContext sc) {
    this.sc = sc;
    sampleBytes = Settings.from(sc.conf()).hostBytes;
  }

  /** Registers the accumulator that carries records; returns its serialised form, as text. */
  static String begin(SparkContext sc) throws IOException {
    Application made = new Application(sc);
    TaskRecordAccumulator carrier = made.carrier;
    TaskRecordAccumulator.noteIfNotAsked();
    if (!Safely.run("registering the records of failed tasks", () ->
        carrier.register(sc, scala.Option.apply(TaskRecordAccumulator.NAME), true))) {
      sc.register(carrier, TaskRecordAccumulator.NAME);
    }
    current = made;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(carrier);
    }
    return Base64.getEncoder().encodeToString(bytes.toByteArray());
  }

  /** The present one; null before it begins and when it is ending. */
  static Application current() {
    return current;
  }

  /** Drops the references to the application, which is ending. */
  static void forget() {
    current = null;
  }

  /** Takes the number of executors, which share the bytes of an application's samples. */
  static void executors(int count) {
    Application now = current;
    if (now != null) {
      now.executors = Math.max(1, count);
    }
  }

  /**
   * Posts a batch of samples as an event for the event log, unless the application has ended.
   *
   * @param batch host, executor, number of dropped samples, and the samples as JSON objects
   *     separated by commas
   * @return bytes a second that the sender's samples may take from now on; empty if it has ended
   */
  public static String post(String[] batch) {
    Application now = current;
    if (now == null) {
      return "";
    }
    IqcarEventSamples event = new IqcarEventSamples();
    event.host = batch[0];
    event.executor = batch[1];
    event.dropped = Long.parseLong(batch[2]);
    event.samples = "[" + batch[3] + "]";
    now.sc.listenerBus().post(event);
    return Float.toString(now.sampleBytes / 60f / now.executors);
  }
}
