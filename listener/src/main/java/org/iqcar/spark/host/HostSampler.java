package org.iqcar.spark.host;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManagerId;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.text.Printable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the Python process that samples this host, and sends what it says to the driver.
 *
 * <p>Of several on one host only one samples the host itself; the processes settle that between
 * them. Everything happens on two threads of its own. The process ends when its input does, so it
 * outlives neither {@link #stop} nor a JVM that is killed.
 */
public final class HostSampler implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(HostSampler.class);
  private static final String SCRIPT = "/iqcar_sampler.py";
  /** Reads the script from the input, whose rest is then the script's own. */
  private static final String BOOTSTRAP = String.join("\n",
      "import os,sys",
      "n=int(sys.argv.pop(1));s=b''",
      "while len(s)<n:",
      " b=os.read(0,n-len(s))",
      " if not b:sys.exit()",
      " s+=b",
      "exec(compile(s,'iqcar_sampler.py','exec'))");
  /** How long an executor takes at most to get its name; without one there are no samples. */
  private static final int START_SECONDS = 120;
  private static final int STOP_MS = 1_500;
  /** Lines that are no samples before the process is taken for something else: a wrong setting. */
  private static final int MOST_OTHER_LINES = 1_000;
  /** The first batches come early, because a short application would otherwise show nothing. */
  private static final long FIRST_SEND_NANOS = 1_000_000_000L;
  private static final long SEND_NANOS = 10_000_000_000L;
  /** The one of this JVM, if any. */
  private static volatile HostSampler current;

  /** Sends a batch to the driver and returns when it has it; on a thread of the sampler's. */
  public interface Sender {
    void send(String[] batch) throws Exception;
  }

  private final Settings settings;
  private final Sender sender;
  private final Thread thread = new Thread(this, "iqcar-host");
  private final ObjectMapper json = new ObjectMapper();
  private final HostBatch batch = new HostBatch();
  private volatile boolean stopped;
  private volatile Process process;
  private volatile String host;
  private volatile String executor;

  public HostSampler(Settings settings, Sender sender) {
    this.settings = settings;
    this.sender = sender;
    thread.setDaemon(true);
  }

  public void start() {
    current = this;
    thread.start();
  }

  /** Sends what there is, without waiting for anything: the application ends. */
  public static void flushLocal() {
    HostSampler running = current;
    if (running != null && "driver".equals(running.executor)) {
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

  /** Ends the process, and sends its last words if that can be done soon. */
  public void stop() throws InterruptedException {
    stopped = true;
    batch.wake();
    thread.join(STOP_MS);
    Process running = process;
    if (running != null) {
      running.destroyForcibly();
    }
  }

  @Override
  public void run() {
    try {
      Faults.at("host");
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
      Thread reader = new Thread(this::read, "iqcar-host-reader");
      reader.setDaemon(true);
      reader.start();
      try (OutputStream out = process.getOutputStream()) {
        out.write(script());
        out.flush();
        HostWatch.begin(jvm(), executor);
        feed(out);
      } catch (IOException ended) {
        // The reader has said why.
      }
      reader.join(STOP_MS);
      send();
    } catch (Throwable failure) {
      Failures.note("sampling the host", failure);
    } finally {
      HostWatch.end();
      if (process != null) {
        process.destroy();
      }
    }
  }

  /** In local mode the block manager gets its id, and the application its own, after plugins. */
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
    try (InputStream in = HostSampler.class.getResourceAsStream(SCRIPT)) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      byte[] buffer = new byte[8192];
      for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
        out.write(buffer, 0, count);
      }
      return out.toByteArray();
    }
  }

  /** This process's id; Java 8 has no other way. */
  private static String jvm() {
    return ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
  }

  /** Tells the process whom to watch, once a period; sends what is due. */
  private void feed(OutputStream out) throws IOException, InterruptedException {
    long sent = System.nanoTime();
    long wait = FIRST_SEND_NANOS;
    while (!stopped && !batch.ended()) {
      String orders = HostWatch.orders();
      if (!orders.isEmpty()) {
        out.write(orders.getBytes(StandardCharsets.US_ASCII));
        out.flush();
      }
      batch.await(settings.hostPeriodNanos);
      if (batch.full() || System.nanoTime() - sent >= wait) {
        sent = System.nanoTime();
        wait = Math.min(2 * wait, SEND_NANOS);
        send();
      }
    }
  }

  private void send() {
    String lines = batch.take();
    if (!lines.isEmpty()) {
      try {
        sender.send(new String[] {host, executor, Long.toString(batch.takeDropped()), lines});
      } catch (Throwable failure) {
        Failures.note("sending samples", failure);
      }
    }
  }

  private void read() {
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
      // The end of the process is reported below.
    } catch (Throwable failure) {
      Failures.note("reading samples", failure);
    }
    batch.end();
    if (!stopped) {
      LOG.warn("iqcar: this host is no longer sampled: the process ended ({}){}",
          exitCode(), said == null ? "" : ": " + Printable.line(said));
    }
  }

  /** A line that is no JSON would make the event log unreadable to Spark. */
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
