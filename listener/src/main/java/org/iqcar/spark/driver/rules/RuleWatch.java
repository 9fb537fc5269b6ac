package org.iqcar.spark.driver.rules;

import java.io.IOException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.iqcar.spark.IqcarEventRules;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.text.Sha256;

/**
 * Looks at the file of rules once a period and applies what has changed.
 *
 * <p>One thread looks, so that a file system that hangs holds up this one thread; another one says
 * so. What is wrong with a file is said once, and only after two looks have found the same: somebody
 * may be writing it.
 */
final class RuleWatch {
  /** A look that takes longer hangs. */
  private static final long HANGS_NANOS = TimeUnit.SECONDS.toNanos(30);
  private static final long HANG_CHECK_MS = 5_000;

  /** What applies the rules. */
  interface Target {
    /** Makes rules act, all at once. */
    void become(PoolRules next);

    /** Whether nothing is left to apply them to; nobody may have called {@link #stop}. */
    boolean ended();
  }

  private final RuleFile file;
  private final Target target;
  private final Consumer<IqcarEventRules> news;
  private PoolRules acting;
  private IqcarEventRules last;
  private IqcarEventRules suspected;
  /** What the file was when it was last read; null for nothing. */
  private String stamp;
  /** Whether to read it at the next look, too: times of files may be whole seconds. */
  private boolean again;
  private volatile long busySince;
  private final ScheduledExecutorService clock = Safely.clock("iqcar-rules-watch", 2);

  /**
   * @param acting the rules that act now
   * @param last what was said of the file before; null for nothing
   * @param news is told of each change and of each file that is not accepted
   */
  RuleWatch(RuleFile file, Target target, PoolRules acting, IqcarEventRules last,
      Consumer<IqcarEventRules> news) {
    this.file = file;
    this.target = target;
    this.acting = acting;
    this.last = last;
    this.news = news;
  }

  void start(long periodNanos) {
    clock.scheduleWithFixedDelay(this::look, periodNanos, periodNanos, TimeUnit.NANOSECONDS);
    clock.scheduleWithFixedDelay(() -> checkHang(System.nanoTime()),
        HANG_CHECK_MS, HANG_CHECK_MS, TimeUnit.MILLISECONDS);
  }

  void stop() {
    clock.shutdownNow();
  }

  /** Looks once; never throws. */
  void look() {
    busySince = Math.max(1, System.nanoTime());
    Safely.run("watching the rules", () -> {
      if (target.ended()) {
        stop();
        return;
      }
      try {
        lookNow();
      } catch (IOException e) {
        stamp = null;
        refuse(RuleNews.UNREADABLE, "cannot be read (" + e.getMessage() + ")", "");
      }
    });
    busySince = 0;
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
    stamp = file.stamp();
    boolean same = stamp != null && stamp.equals(before) && !stamp.isEmpty();
    if (stamp == null) {
      refuse(RuleNews.MISSING, "is gone", "");
    } else if (!same || again) {
      again = !same;
      byte[] content = file.readNow();
      if (stamp.equals(file.stamp())) {
        read(content);
      } else {
        stamp = null;  // somebody writes it
      }
    }
  }

  private void read(byte[] content) {
    String hash = Sha256.of(content);
    PoolRules next;
    try {
      next = file.parse(content);
    } catch (RulesRefused refused) {
      refuse(RuleNews.REFUSED, refused.reason(), hash);
      return;
    }
    suspected = null;
    IqcarEventRules accepted = RuleNews.accepted(hash, acting, next);
    if (!RuleNews.repeats(accepted, last)) {
      if (!accepted.changes.isEmpty()) {
        target.become(next);
        acting = next;
      }
      say(accepted);
    }
  }

  private void refuse(String outcome, String reason, String hash) {
    IqcarEventRules found = RuleNews.notAccepted(outcome, reason, hash, acting);
    if (RuleNews.repeats(found, suspected)) {
      say(found);
    }
    suspected = found;
  }

  private synchronized void say(IqcarEventRules found) {
    if (!RuleNews.repeats(found, last)) {
      last = found;
      news.accept(found);
    }
  }
}
