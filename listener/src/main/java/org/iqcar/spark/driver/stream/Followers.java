package org.iqcar.spark.driver.stream;

import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.SparkContext;
import org.iqcar.spark.safety.Safely;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Who follows a stream: each in a thread of its own, once it has sent the token as its first line. */
final class Followers {
  private static final Logger LOG = LoggerFactory.getLogger(Followers.class);
  private static final int MOST_FOLLOWERS = 8;
  private static final int LINES_AT_ONCE = 500;
  private static final int WAIT_MS = 1_000;
  /** Longest time in which a follower must send its token. */
  private static final int TOKEN_MS = 5_000;
  static final int MOST_TOKEN = 4_096;
  private static final int MOST_ASKING = 64;
  /** Longest time in which a follower must read something of what was sent. */
  private static final int READ_MS = 30_000;
  /** Time without reading after which the application's end does not wait for a follower. */
  private static final int STALLED_MS = 200;
  /** Longest wait for followers when the application ends; a busy driver sends slowly. */
  private static final int END_MS = 5_000;

  private final ServerSocket server;
  private final byte[] token;
  private final SparkContext sc;
  private final KeptLines kept;
  private final EventLines lines;
  /** Open connections, the oldest first. */
  private final List<Follower> open = new CopyOnWriteArrayList<>();

  /**
   * @param sc the application, of which the first line tells
   * @param lines removes secrets from lines
   */
  Followers(
      SparkContext sc, ServerSocket server, String token, KeptLines kept, EventLines lines) {
    this.sc = sc;
    this.server = server;
    this.token = token.getBytes(StandardCharsets.UTF_8);
    this.kept = kept;
    this.lines = lines;
  }

  /** A connection; as a stream it notes since when it waits for its client to read. */
  private static final class Follower extends OutputStream {
    final Socket socket;
    /** Whether it has shown the token; who has not takes no place of those who have. */
    volatile boolean admitted;
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

  /** Begins to accept them. */
  void start() {
    Safely.thread("iqcar-live", this::listen).start();
    Safely.thread("iqcar-live-watch", this::watch).start();
  }

  /** Lets those who read get what is left, at most {@link #END_MS}; the stream has ended. */
  void await() throws InterruptedException {
    long start = System.nanoTime();
    while (millisFrom(start) < END_MS
        && open.stream().anyMatch(one -> one.admitted && one.blockedMs() < STALLED_MS)) {
      Thread.sleep(20);
    }
  }

  /** Ends all connections; the threads end with them. */
  void close() {
    close(server);
    open.forEach(one -> close(one.socket));
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
    // Who has been asking longest has had its chance.
    open.stream().filter(one -> !one.admitted).limit(Math.max(0, asking() + 1 - MOST_ASKING))
        .forEach(this::end);
    open.add(follower);
    Safely.thread("iqcar-live-follower", () -> serve(follower)).start();
  }

  private long asking() {
    return open.stream().filter(one -> !one.admitted).count();
  }

  private void end(Follower follower) {
    open.remove(follower);
    close(follower.socket);
  }

  /** Closes followers that have not read for long; each second, until the stream ends. */
  private void watch() {
    while (!server.isClosed()) {
      LockSupport.parkNanos(WAIT_MS * 1_000_000L);
      open.stream().filter(one -> one.blockedMs() > READ_MS).forEach(this::end);
    }
  }

  private void serve(Follower follower) {
    try {
      if (knows(follower.socket) && admit(follower)) {
        send(new BufferedOutputStream(follower, 1 << 16));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (IOException gone) {
      LOG.debug("iqcar: a follower has gone", gone);
    } finally {
      end(follower);
    }
  }

  /** Gives a place to who knows the token; false where there is none. */
  private synchronized boolean admit(Follower follower) {
    follower.admitted = open.size() - asking() < MOST_FOLLOWERS;
    return follower.admitted;
  }

  private void send(OutputStream out) throws IOException, InterruptedException {
    // It has no id before its scheduler has started.
    write(out, "{\"iqcar_live\":1,\"application_id\":\"" + sc.applicationId()
        + "\",\"spark_version\":\"" + sc.version() + "\"}");
    out.flush();
    long next = 0;
    for (boolean ended = false; !ended;) {
      KeptLines.Piece piece = kept.read(next, LINES_AT_ONCE, WAIT_MS);
      if (piece.lost > 0) {
        write(out, "{\"Event\":\"org.iqcar.spark.IqcarEventsLost\",\"events\":" + piece.lost + "}");
      }
      for (KeptLines.Line line : piece.lines) {
        out.write(Safely.get("removing secrets from an event", new byte[0],
            () -> lines.withoutSecrets(line)));
      }
      out.flush();
      next = piece.next;
      ended = piece.ended;
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

  static void close(Closeable one) {
    try {
      if (one != null) {
        one.close();
      }
    } catch (IOException gone) {
      LOG.debug("iqcar: it was closed already", gone);
    }
  }
}
