package org.iqcar.spark.driver.stream;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
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
 * follower sends a token ({@link Followers}): one that was given, which any but a loopback address
 * takes, else one that only this user can read ({@link TokenFile}).
 */
public final class LiveStream extends SparkFirehoseListener {
  private static final Logger LOG = LoggerFactory.getLogger(LiveStream.class);
  private static final String QUEUE = "iqcar-live";
  /** The environment and the first executors. */
  private static final long MOST_FIRST_BYTES = 4 << 20;
  /** Some 15,000 tasks. */
  private static final long MOST_LAST_BYTES = 32 << 20;
  private static final int LEAST_TOKEN = 16;
  private static final String REDACTION = "spark.redaction.regex";
  private static final String SECRET = "(?i)secret|password|token|access[.]?key";

  private final EventLines lines;
  private final KeptLines kept = new KeptLines(MOST_FIRST_BYTES, MOST_LAST_BYTES);
  private final Followers followers;
  /** The file with the token; null where it was given. */
  private final TokenFile tokenFile;

  private LiveStream(SparkContext sc, ServerSocket server, String token, TokenFile tokenFile)
      throws ReflectiveOperationException {
    this.tokenFile = tokenFile;
    lines = new EventLines(
        new PropertySecrets(Pattern.compile(sc.conf().get(REDACTION, SECRET))));
    kept.add(new KeptLines.Line("{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\""
        + sc.version() + "\"}", false, false));
    followers = new Followers(sc, server, token, kept, lines);
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
      String token = TokenFile.given(settings.liveToken, Followers.MOST_TOKEN);
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
      if (!Safely.run("starting the stream", () -> {
        stream.followers.start();
        sc.listenerBus().addToQueue(stream, QUEUE);
      })) {
        throw new IllegalStateException("it cannot start");
      }
      LOG.info("iqcar: events are streamed at {}", server.getLocalSocketAddress());
      return stream;
    } catch (Throwable failure) {
      // The threads end with the server, whichever of them have begun.
      Followers.close(file);
      Followers.close(server);
      LOG.warn("iqcar: no events are streamed: {} = {}: {}",
          Setting.LIVE.key, settings.live, failure.toString());
      return null;
    }
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
      followers.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    // First the file: as soon as the port is free another driver can write its own there.
    Followers.close(tokenFile);
    followers.close();
  }
}
