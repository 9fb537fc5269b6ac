package org.iqcar.spark.stream;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkFirehoseListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.settings.Setting;
import org.iqcar.spark.settings.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Streams the events of the application to who connects, as the event log has them, from its start.
 *
 * <p>The first line says what it is; then come events. A follower that is too slow misses events and
 * is told how many; it holds nobody else up. Without {@code spark.iqcar.live} nothing listens. On any
 * but a loopback address it takes a token, which a follower sends as its first line.
 */
public final class LiveStream extends SparkFirehoseListener {
  private static final Logger LOG = LoggerFactory.getLogger(LiveStream.class);
  private static final String QUEUE = "iqcar-live";
  /** The environment and the first executors. */
  private static final long MOST_FIRST_BYTES = 4 << 20;
  /** Some 15,000 tasks. */
  private static final long MOST_LAST_BYTES = 32 << 20;
  private static final int MOST_FOLLOWERS = 8;
  private static final int LINES_AT_ONCE = 500;
  private static final int WAIT_MS = 1_000;
  /** Longest time in which a follower must send its token. */
  private static final int TOKEN_MS = 5_000;
  /** Longest wait for followers when the application ends. */
  private static final int END_MS = 2_000;
  private static final int LEAST_TOKEN = 16;
  private static final String REDACTION = "spark.redaction.regex";
  private static final String SECRET = "(?i)secret|password|token|access[.]?key";

  private final SparkContext sc;
  private final EventLines lines;
  private final KeptLines kept = new KeptLines(MOST_FIRST_BYTES, MOST_LAST_BYTES);
  private final ServerSocket server;
  private final byte[] token;
  private final Set<Socket> followers = Collections.synchronizedSet(new HashSet<>());

  private LiveStream(SparkContext sc, ServerSocket server, String token)
      throws ReflectiveOperationException {
    this.sc = sc;
    this.server = server;
    this.token = token == null ? null : token.getBytes(StandardCharsets.UTF_8);
    lines = new EventLines(
        new PropertySecrets(Pattern.compile(sc.conf().get(REDACTION, SECRET))));
    kept.add(new KeptLine(
        "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"" + sc.version() + "\"}", false));
  }

  /** Begins to listen if the settings say where; returns null if not. Never throws. */
  public static LiveStream start(SparkContext sc) {
    Settings settings = Settings.from(sc.conf());
    if (settings.live == null) {
      return null;
    }
    ServerSocket server = null;
    try {
      Faults.at("stream.start");
      int colon = settings.live.lastIndexOf(':');
      String host = settings.live.substring(0, Math.max(colon, 0));
      int port = Integer.parseInt(settings.live.substring(colon + 1));
      InetAddress address = InetAddress.getByName(host.replace("[", "").replace("]", ""));
      if (host.isEmpty()) {
        throw new IllegalArgumentException("write host:port");
      }
      boolean safe = settings.liveToken != null && settings.liveToken.length() >= LEAST_TOKEN;
      if (!address.isLoopbackAddress() && !safe) {
        throw new IllegalArgumentException("others can reach that address: it takes "
            + Setting.LIVE_TOKEN.key() + " of " + LEAST_TOKEN + " characters at least");
      }
      server = new ServerSocket();
      server.bind(new InetSocketAddress(address, port));
      LiveStream stream = new LiveStream(sc, server, settings.liveToken);
      sc.listenerBus().addToQueue(stream, QUEUE);
      daemon("iqcar-live", stream::listen);
      LOG.info("iqcar: events are streamed at {}", server.getLocalSocketAddress());
      return stream;
    } catch (IOException | RuntimeException | ReflectiveOperationException failure) {
      LOG.warn("iqcar: no events are streamed: {} = {}: {}",
          Setting.LIVE.key(), settings.live, failure.toString());
      close(server);
      return null;
    }
  }

  @Override
  public void onEvent(SparkListenerEvent event) {
    try {
      Faults.at("stream.onEvent");
      kept.add(lines.line(event));
      if (event instanceof SparkListenerApplicationEnd) {
        kept.end();
      }
    } catch (Throwable failure) {
      Failures.note("streaming an event", failure);
    }
  }

  /** Lets followers read what is left, and ends; never throws. */
  public void stop() {
    long end = System.currentTimeMillis() + END_MS;
    try {
      while (!followers.isEmpty() && System.currentTimeMillis() < end) {
        Thread.sleep(20);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    kept.end();
    close(server);
    synchronized (followers) {
      followers.forEach(LiveStream::close);
    }
  }

  private void listen() {
    while (!server.isClosed()) {
      try {
        Socket follower = server.accept();
        if (followers.size() >= MOST_FOLLOWERS) {
          close(follower);
          continue;
        }
        followers.add(follower);
        daemon("iqcar-live-follower", () -> serve(follower));
      } catch (IOException closed) {
        if (!server.isClosed()) {
          Failures.note("accepting a follower", closed);
          return;
        }
      }
    }
  }

  private void serve(Socket follower) {
    try {
      follower.setSoTimeout(TOKEN_MS);
      if (token != null && !knows(follower.getInputStream())) {
        return;
      }
      OutputStream out = new BufferedOutputStream(follower.getOutputStream(), 1 << 16);
      write(out, "{\"iqcar_live\":1,\"application_id\":\"" + sc.applicationId()
          + "\",\"spark_version\":\"" + sc.version() + "\"}");
      out.flush();
      long next = 0;
      boolean ended = false;
      while (!ended) {
        KeptLines.Piece piece = kept.read(next, LINES_AT_ONCE, WAIT_MS);
        if (piece.lost > 0) {
          write(out, "{\"Event\":\"org.iqcar.spark.IqcarEventsLost\",\"events\":" + piece.lost
              + "}");
        }
        for (KeptLine line : piece.lines) {
          out.write(shown(line));
        }
        out.flush();
        next = piece.next;
        ended = piece.ended;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (IOException gone) {
      LOG.debug("iqcar: a follower has gone", gone);
    } finally {
      followers.remove(follower);
      close(follower);
    }
  }

  private byte[] shown(KeptLine line) {
    try {
      return lines.withoutSecrets(line);
    } catch (Throwable failure) {
      Failures.note("removing secrets from an event", failure);
      return new byte[0];
    }
  }

  private boolean knows(InputStream from) throws IOException {
    InputStream in = new BufferedInputStream(from);
    ByteArrayOutputStream given = new ByteArrayOutputStream();
    for (int next = in.read(); next >= 0 && next != '\n'; next = in.read()) {
      given.write(next);
      if (given.size() > 4096) {
        return false;
      }
    }
    return MessageDigest.isEqual(given.toByteArray(), token);
  }

  private static void write(OutputStream out, String line) throws IOException {
    out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
  }

  private static void daemon(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }

  private static void close(Closeable one) {
    try {
      if (one != null) {
        one.close();
      }
    } catch (IOException gone) {
      LOG.debug("iqcar: it was closed already", gone);
    }
  }
}
