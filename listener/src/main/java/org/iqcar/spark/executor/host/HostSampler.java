package org.iqcar.spark.executor.host;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManagerId;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.text.Printable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the Python process that samples this host, and sends its samples to the driver.
 *
 * <p>Of several such processes on one host only one samples the host itself, which they settle by a
 * lock file. Two threads of this class do all work, but for {@link #flushLocal}. The
 * process ends when its input ends, so it outlives neither {@link #stop} nor a JVM that is killed.
 */
public final class HostSampler {
  private static final Logger LOG = LoggerFactory.getLogger(HostSampler.class);
  private static final String SCRIPT = "/iqcar_sampler.py";
  /** Reads the script from standard input and leaves the rest of the input to the script. */
  private static final String BOOTSTRAP = String.join("\n",
      "import os,sys",
      "n=int(sys.argv.pop(1));s=b''",
      "while len(s)<n:",
      " b=os.read(0,n-len(s))",
      " if not b:sys.exit()",
      " s+=b",
      "exec(compile(s,'iqcar_sampler.py','exec'))");
  /** Longest wait for the executor to get its name, in s; without a name there are no samples. */
  private static final int START_SECONDS = 120;
  /** Longest wait for the process's last samples, in ms. */
  private static final int STOP_MS = 1_500;
  /** After so many lines that are no samples the process is no sampler: the setting is wrong. */
  private static final int MOST_OTHER_LINES = 1_000;
  /** The first batch is sent early, in ns, because short applications would lack one. */
  private static final long FIRST_SEND_NANOS = 1_000_000_000L;
  private static final long SEND_NANOS = 10_000_000_000L;
  /**
   * The same in local mode, where sending costs next to nothing: Spark does not wait for what
   * listeners do at its end, so a batch sent then may come too late for the event log.
   */
  private static final long LOCAL_SEND_NANOS = 2_000_000_000L;
  private static final String LOCAL = "driver";
  /** The sampler of this JVM, or null. */
  private static volatile HostSampler current;

  /**
   * Sends a batch to the driver and returns when the driver has it; called by the sampler's thread
   * and, in local mode, by the one that tells listeners of the application's end. The answer is
   * the bytes a second that this executor's samples may take, a number as text.
   */
  public interface Sender {
    Object send(String[] batch) throws Exception;
  }

  private final Settings settings;
  private final Sender sender;
  private final Thread thread = Safely.thread("iqcar-host", this::run);
  private final ObjectMapper json = new ObjectMapper();
  private final HostBatch batch = new HostBatch();
  private volatile boolean stopped;
  private volatile Process process;
  private volatile String host;
  private volatile String executor;
  /** What the driver answered last. */
  private volatile String rate = "";

  public HostSampler(Settings settings, Sender sender) {
    this.settings = settings;
    this.sender = sender;
  }

  /** Starts the process and the threads. */
  public void start() {
    current = this;
    thread.start();
  }

  /** Number of samples that the driver was too slow to take. */
  public long dropped() {
    return batch.droppedInAll();
  }

  /** Sends the samples so far if this is local mode, where the application's end is near. */
  public static void flushLocal() {
    HostSampler running = current;
    if (running != null && LOCAL.equals(running.executor)) {
      running.send();
    }
  }

  /** Stops the sampler of this JVM, if there is one. */
  public static void stopCurrent() throws InterruptedException {
    HostSampler running = current;
    if (running != null) {
      running.stop();
    }
  }

  /** Ends the process, and sends its last samples if they come within {@link #STOP_MS}. */
  public void stop() throws InterruptedException {
    stopped = true;
    batch.end();
    thread.join(STOP_MS);
    Process running = process;
    if (running != null) {
      running.destroyForcibly();
    }
  }

  private void run() {
    Safely.run("sampling the host", this::sample);
    WatchOrders.end();
    if (process != null) {
      process.destroy();
    }
  }

  private void sample() throws IOException, InterruptedException {
    if (!awaitName()) {
      return;
    }
    List<String> command = command(SparkEnv.get().conf());
    try {
      process = new ProcessBuilder(command).redirectErrorStream(true).start();
    } catch (IOException absent) {
      LOG.warn("iqcar: this host is not sampled: {}", absent.getMessage());
      return;
    }
    Thread reader = Safely.thread("iqcar-host-reader", this::read);
    reader.start();
    try (OutputStream out = process.getOutputStream()) {
      out.write(script());
      out.flush();
      WatchOrders.begin(jvm());
      feed(out);
    } catch (IOException ended) {
      // The reader has logged why.
    }
    reader.join(STOP_MS);
    send();
  }

  /** Waits for the host's and the executor's names: local mode sets them after plugins start. */
  private boolean awaitName() throws InterruptedException {
    for (int tries = 0; tries < START_SECONDS * 10 && !stopped; tries++) {
      SparkEnv env = SparkEnv.get();
      if (env != null && env.conf().contains("spark.app.id")) {
        BlockManagerId id = env.blockManager().blockManagerId();
        if (id != null) {
          host = id.host();
          executor = env.executorId();
          return true;
        }
      }
      Thread.sleep(100);
    }
    return false;
  }

  private List<String> command(SparkConf conf) throws IOException {
    String python = settings.hostPython;
    if (python == null) {
      String fromEnvironment = System.getenv("PYSPARK_PYTHON");
      python = conf.get("spark.pyspark.python",
          fromEnvironment == null ? "python3" : fromEnvironment);
    }
    String lock = "iqcar-" + conf.get("spark.app.id") + "-" + host + ".lock";
    return new ArrayList<>(Arrays.asList(
        python, "-u", "-c", BOOTSTRAP, Integer.toString(script().length),
        "--stdin", "--period", Double.toString(settings.hostPeriodNanos / 1e9),
        "--proc", settings.proc, "--lock", lock.replaceAll("[^A-Za-z0-9._-]", "_")));
  }

  private static byte[] script() throws IOException {
    try (InputStream in = HostSampler.class.getResourceAsStream(SCRIPT);
        Scanner whole = new Scanner(in, "UTF-8").useDelimiter("\\A")) {
      return whole.next().getBytes(StandardCharsets.UTF_8);
    }
  }

  /** This process's id; Java 8 has no other way to get it. */
  private static String jvm() {
    return ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
  }

  /** Once a period, tells the process what to watch; sends batches that are due. */
  private void feed(OutputStream out) throws IOException, InterruptedException {
    long sent = System.nanoTime();
    long wait = FIRST_SEND_NANOS;
    String told = "";
    long longestWait = LOCAL.equals(executor) ? LOCAL_SEND_NANOS : SEND_NANOS;
    while (!stopped && !batch.ended()) {
      String orders = WatchOrders.orders();
      if (!rate.equals(told)) {
        told = rate;
        orders += "rate " + told + "\n";
      }
      if (!orders.isEmpty()) {
        out.write(orders.getBytes(StandardCharsets.US_ASCII));
        out.flush();
      }
      batch.await(settings.hostPeriodNanos);
      if (batch.full() || System.nanoTime() - sent >= wait) {
        sent = System.nanoTime();
        wait = Math.min(2 * wait, longestWait);
        send();
      }
    }
  }

  private void send() {
    String lines = batch.take();
    if (!lines.isEmpty()) {
      rate = Safely.get("sending samples", rate, () -> String.valueOf(sender.send(
          new String[] {host, executor, Long.toString(batch.takeDropped()), lines})));
    }
  }

  private void read() {
    String said = Safely.get("reading samples", null, this::lines);
    batch.end();
    if (!stopped) {
      LOG.warn("iqcar: this host is no longer sampled: the process ended ({}){}",
          exitCode(), said == null ? "" : ": " + Printable.line(said));
    }
  }

  /** Reads samples until the process ends; what it said beside them, or null. */
  private String lines() {
    String said = null;
    int others = 0;
    try (BufferedReader in = new BufferedReader(
        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        if (isSample(line)) {
          batch.add(line);
        } else {
          said = said == null || line.startsWith("{") ? line : said;
          if (++others > MOST_OTHER_LINES) {
            process.destroyForcibly();
            break;
          }
        }
      }
    } catch (IOException ended) {
      // The end of the process is reported by who asked.
    }
    return said;
  }

  /** Whether a line is a sample: one that is no JSON would make the event log unreadable. */
  private boolean isSample(String line) {
    try {
      return line.startsWith("{\"v\":") && !line.contains("\"err\":")
          && json.readTree(line).isObject();
    } catch (JsonProcessingException damaged) {
      return false;
    }
  }

  private String exitCode() {
    try {
      return process.waitFor(1, TimeUnit.SECONDS) ? "exit code " + process.exitValue() : "alive";
    } catch (InterruptedException e) {
      return "alive";
    }
  }
}
