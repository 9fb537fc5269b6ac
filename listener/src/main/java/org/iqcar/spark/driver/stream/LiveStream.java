package org.iqcar.spark.driver.stream;

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
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkFirehoseListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.settings.Setting;
import org.iqcar.spark.settings.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Streams the events of the application to who connects, as the event log has them, from its start.
 *
 * <p>The first line says what it is; then come events. A follower that is too slow misses events and
 * is told how many; it holds nobody else up. Without {@code spark.iqcar.live} nothing listens. A
 * follower sends a token as its first line: one that was given, which any but a loopback address
 * takes, else one that only this user can read ({@link TokenFile}).
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
  private static final int MOST_TOKEN = 4_096;
  private static final int MOST_ASKING = 64;
  /** Longest time in which a follower must read something of what was sent. */
  private static final int READ_MS = 30_000;
  /** Time without reading after which the application's end does not wait for a follower. */
  private static final int STALLED_MS = 200;
  /** Longest wait for followers when the application ends; a busy driver sends slowly. */
  private static final int END_MS = 5_000;
  private static final int LEAST_TOKEN = 16;
  private static final String REDACTION = "spark.redaction.regex";
  private static final String SECRET = "(?i)secret|password|token|access[.]?key";

  private final SparkContext sc;
  private final EventLines lines;
  private final KeptLines kept = new KeptLines(MOST_FIRST_BYTES, MOST_LAST_BYTES);
  private final ServerSocket server;
  private final byte[] token;
  /** The file with the token; null where it was given. */
  private final TokenFile tokenFile;
  /** Who has not shown the token yet; these take no places of those who have. */
  private final Set<Follower> asking = new LinkedHashSet<>();
  private final Set<Follower> followers = new LinkedHashSet<>();

  private LiveStream(SparkContext sc, ServerSocket server, String token, TokenFile tokenFile)
      throws ReflectiveOperationException {
    this.sc = sc;
    this.server = server;
    this.token = token.getBytes(StandardCharsets.UTF_8);
    this.tokenFile = tokenFile;
    lines = new EventLines(
        new PropertySecrets(Pattern.compile(sc.conf().get(REDACTION, SECRET))));
    kept.add(new KeptLines.Line(
        "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"" + sc.version() + "\"}", false, false));
  }

  /** Begins to listen if the settings say where; returns null if not. Never throws. */
  public static LiveStream start(SparkContext sc) {
    Settings settings = Settings.from(sc.conf());
    if (settings.live == null) {
      return null;
    }
    ServerSocket server = null;
    TokenFile file = null;
    try {
      int colon = settings.live.lastIndexOf(':');
      String host = settings.live.substring(0, Math.max(colon, 0));
      int port = Integer.parseInt(settings.live.substring(colon + 1));
      InetAddress address = InetAddress.getByName(host.replace("[", "").replace("]", ""));
      if (host.isEmpty()) {
        throw new IllegalArgumentException("write host:port");
      }
      String token = TokenFile.given(settings.liveToken, MOST_TOKEN);
      boolean safe = token != null && token.length() >= LEAST_TOKEN;
      if (!address.isLoopbackAddress() && !safe) {
        throw new IllegalArgumentException("others can reach that address: it takes "
            + Setting.LIVE_TOKEN.key + " of " + LEAST_TOKEN + " characters at least");
      }
      server = new ServerSocket();
      server.bind(new InetSocketAddress(address, port));
      if (token == null) {
        file = TokenFile.make(address, server.getLocalPort());
        token = file.token;
      }
      LiveStream stream = new LiveStream(sc, server, token, file);
      if (!Safely.run("starting the stream", stream::begin)) {
        throw new IllegalStateException("it cannot start");
      }
      LOG.info("iqcar: events are streamed at {}", server.getLocalSocketAddress());
      return stream;
    } catch (Throwable failure) {
      // The threads end with the server, whichever of them have begun.
      close(file);
      close(server);
      LOG.warn("iqcar: no events are streamed: {} = {}: {}",
          Setting.LIVE.key, settings.live, failure.toString());
      return null;
    }
  }

  private void begin() {
    Safely.thread("iqcar-live", this::listen).start();
    Safely.thread("iqcar-live-watch", this::watch).start();
    sc.listenerBus().addToQueue(this, QUEUE);
  }

  @Override
  public void onEvent(SparkListenerEvent event) {
    Safely.run("streaming an event", () -> {
      kept.add(lines.line(event));
      if (event instanceof SparkListenerApplicationEnd) {
        kept.end();
      }
    });
  }

  /** Lets followers that read get what is left, and ends; never throws. */
  public void stop() {
    kept.end();
    try {
      awaitFollowers();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    // First the file: as soon as the port is free another driver can write its own there.
    close(tokenFile);
    close(server);
    followers().forEach(one -> close(one.socket));
    synchronized (asking) {
      asking.forEach(one -> close(one.socket));
    }
  }

  private void awaitFollowers() throws InterruptedException {
    long start = System.nanoTime();
    while (millisFrom(start) < END_MS
        && followers().stream().anyMatch(one -> one.blockedMs() < STALLED_MS)) {
      Thread.sleep(20);
    }
  }

  private static long millisFrom(long nanos) {
    return (System.nanoTime() - nanos) / 1_000_000;
  }

  private void listen() {
    while (!server.isClosed()) {
      if (!Safely.run("accepting a follower", this::accept)) {
        // Where descriptors or memory are short, they may be there again later.
        LockSupport.parkNanos(WAIT_MS * 1_000_000L);
      }
    }
  }

  private void accept() throws IOException {
    Follower follower;
    try {
      follower = new Follower(server.accept());
    } catch (IOException failure) {
      if (server.isClosed()) {
        return;
      }
      throw failure;
    }
    synchronized (asking) {
      if (asking.size() >= MOST_ASKING) {
        // Who has been asking longest has had its chance.
        Follower oldest = asking.iterator().next();
        asking.remove(oldest);
        close(oldest.socket);
      }
      asking.add(follower);
    }
    Safely.thread("iqcar-live-follower", () -> serve(follower)).start();
  }

  /** Closes followers that have not read for long; each second, until the stream ends. */
  private void watch() {
    try {
      while (!server.isClosed()) {
        Thread.sleep(WAIT_MS);
        for (Follower one : followers()) {
          if (one.blockedMs() > READ_MS) {
            close(one.socket);
          }
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private List<Follower> followers() {
    synchronized (followers) {
      return new ArrayList<>(followers);
    }
  }

  /** Gives a place to who knows the token; false where there is none. */
  private boolean admit(Follower follower) throws IOException {
    if (!knows(follower.socket)) {
      return false;
    }
    synchronized (followers) {
      return followers.size() < MOST_FOLLOWERS && followers.add(follower);
    }
  }

  private void serve(Follower follower) {
    try {
      boolean admitted = admit(follower);
      synchronized (asking) {
        asking.remove(follower);
      }
      if (!admitted) {
        return;
      }
      OutputStream out = new BufferedOutputStream(follower, 1 << 16);
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
        for (KeptLines.Line line : piece.lines) {
          out.write(Safely.get("removing secrets from an event", new byte[0],
              () -> lines.withoutSecrets(line)));
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
      synchronized (asking) {
        asking.remove(follower);
      }
      synchronized (followers) {
        followers.remove(follower);
      }
      close(follower.socket);
    }
  }

  /** A connection; as a stream it notes since when it waits for its client to read. */
  private static final class Follower extends OutputStream {
    final Socket socket;
    private volatile long writesSince;

    Follower(Socket socket) {
      this.socket = socket;
    }

    long blockedMs() {
      long since = writesSince;
      return since == 0 ? 0 : millisFrom(since);
    }

    @Override
    public void write(int one) throws IOException {
      write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      writesSince = System.nanoTime() | 1;
      try {
        socket.getOutputStream().write(bytes, offset, length);
      } finally {
        writesSince = 0;
      }
    }
  }

  /** Reads the first line, in a time and length that are bounded whatever comes. */
  private boolean knows(Socket from) throws IOException {
    long end = System.nanoTime() + TOKEN_MS * 1_000_000L;
    InputStream in = from.getInputStream();
    ByteArrayOutputStream given = new ByteArrayOutputStream();
    while (given.size() <= MOST_TOKEN) {
      long left = (end - System.nanoTime()) / 1_000_000;
      if (left <= 0) {
        return false;
      }
      from.setSoTimeout((int) left);
      int next = in.read();
      if (next < 0) {
        return false;
      }
      if (next == '\n') {
        return MessageDigest.isEqual(given.toByteArray(), token);
      }
      given.write(next);
    }
    return false;
  }

  private static void write(OutputStream out, String line) throws IOException {
    out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
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
