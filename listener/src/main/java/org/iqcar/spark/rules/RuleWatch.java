package org.iqcar.spark.rules;

import java.io.IOException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.safety.OwnThread;

/**
 * Looks at the file of rules once a period and applies what has changed.
 *
 * <p>One thread looks, so that a file system that hangs holds up this one thread; another one says
 * so. Both are daemons. What is wrong with a file is said once, and only after two looks have found
 * the same: somebody may be writing it.
 */
final class RuleWatch {
  /** Looks that read a file again after its stamp changed: times of files may be whole seconds. */
  private static final int MORE_READS = 3;
  /** Looks between two attempts to read a file that is there and cannot be read. */
  private static final int REST = 30;
  /** A look that takes longer hangs. */
  private static final long HANGS_NANOS = TimeUnit.SECONDS.toNanos(30);
  private static final long HANG_CHECK_MS = 5_000;

  /** The file. */
  interface Source {
    /** What changes when the content does; null if there is no such file, empty if unknown. */
    String stamp() throws IOException;

    byte[] read() throws IOException;
  }

  /** What applies the rules. */
  interface Target {
    /** Parses a content; throws {@link RulesRefused} if it is not valid. */
    PoolRules parse(byte[] content);

    /** Makes rules act, all at once. */
    void apply(PoolRules next);

    /** Whether nothing is left to apply them to; nobody may have called {@link #stop}. */
    boolean ended();
  }

  private final Source source;
  private final Target target;
  private final Consumer<RuleNews> news;
  private PoolRules acting;
  private RuleNews last;
  private RuleNews suspected;
  private String stamp;
  private int moreReads;
  private int rest;
  private volatile long busySince;
  private ScheduledExecutorService clock;

  /**
   * @param acting the rules that act now
   * @param last what was said of the file before; null for nothing
   * @param news is told of each change and of each file that is not accepted
   */
  RuleWatch(Source source, Target target, PoolRules acting, RuleNews last,
      Consumer<RuleNews> news) {
    this.source = source;
    this.target = target;
    this.acting = acting;
    this.last = last;
    this.news = news;
  }

  void start(long periodNanos) {
    clock = Executors.newScheduledThreadPool(2, task -> OwnThread.of("iqcar-rules-watch", task));
    clock.scheduleWithFixedDelay(this::look, periodNanos, periodNanos, TimeUnit.NANOSECONDS);
    clock.scheduleWithFixedDelay(() -> checkHang(System.nanoTime()),
        HANG_CHECK_MS, HANG_CHECK_MS, TimeUnit.MILLISECONDS);
  }

  void stop() {
    if (clock != null) {
      clock.shutdownNow();
    }
  }

  /** Looks once; never throws. */
  void look() {
    busySince = Math.max(1, System.nanoTime());
    try {
      Faults.at("rules.watch");
      if (target.ended()) {
        stop();
        return;
      }
      lookNow();
    } catch (IOException | RuntimeException e) {
      refuse(RuleNews.UNREADABLE, "cannot be read (" + e.getMessage() + ")", "");
      if (!(e instanceof IOException)) {
        Failures.note("watching the rules", e);
      }
    } catch (Throwable failure) {
      Failures.note("watching the rules", failure);
    } finally {
      busySince = 0;
    }
  }

  /** Says that a look hangs, if it does; called by the other thread. */
  void checkHang(long nanoTime) {
    long since = busySince;
    if (since != 0 && nanoTime - since > HANGS_NANOS) {
      say(RuleNews.notAccepted(RuleNews.UNREADABLE, "its file system does not answer", "", acting));
    }
  }

  private void lookNow() throws IOException {
    String before = stamp;
    stamp = null;  // where it is not told, the file is read again
    String now = source.stamp();
    if (now == null) {
      refuse(RuleNews.MISSING, "is gone", "");
      return;
    }
    stamp = now;
    if (!now.equals(before)) {
      moreReads = MORE_READS;
      rest = 0;
    } else if (rest > 0) {
      rest--;
      return;
    } else if (moreReads > 0) {
      moreReads--;
    } else if (!now.isEmpty()) {
      return;
    }
    byte[] content;
    try {
      content = source.read();
    } catch (IOException e) {
      if (moreReads == 0) {
        moreReads = 1;
        rest = REST;
      }
      throw e;
    }
    if (!now.equals(source.stamp())) {
      stamp = null;  // somebody writes it
      return;
    }
    read(content);
  }

  private void read(byte[] content) {
    String hash = RuleFile.hash(content);
    PoolRules next;
    try {
      next = target.parse(content);
    } catch (RulesRefused refused) {
      refuse(RuleNews.REFUSED, refused.reason(), hash);
      return;
    }
    RuleNews accepted = RuleNews.accepted(hash, next, RuleChange.between(acting, next));
    suspected = null;
    if (!accepted.repeats(last)) {
      if (!accepted.changes.isEmpty()) {
        target.apply(next);
        acting = next;
      }
      say(accepted);
    }
  }

  private void refuse(String outcome, String reason, String hash) {
    RuleNews found = RuleNews.notAccepted(outcome, reason, hash, acting);
    if (found.repeats(suspected)) {
      say(found);
    }
    suspected = found;
  }

  private synchronized void say(RuleNews found) {
    if (!found.repeats(last)) {
      last = found;
      news.accept(found);
    }
  }
}
