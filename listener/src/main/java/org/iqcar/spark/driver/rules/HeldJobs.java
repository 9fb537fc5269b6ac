package org.iqcar.spark.driver.rules;

import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.IntPredicate;
import java.util.function.LongSupplier;
import org.iqcar.spark.safety.LruMap;
import org.iqcar.spark.safety.Safely;

/**
 * Jobs whose tasks came before it was known which pool they belong into. They are offered no slots
 * until it is known, but for a short time only; nobody waits for them.
 *
 * <p>Where that time was not enough once, no job is held until an answer comes in time again. Nor is
 * one held where Spark has just dropped events: the answer may be among them.
 */
final class HeldJobs {
  /** Longest time; an answer takes milliseconds, unless the processors are busy. */
  private static final long MOST_MS = 500;
  private static final long MOST_NANOS = TimeUnit.MILLISECONDS.toNanos(MOST_MS);
  /** Jobs that wait for an answer. */
  private static final int MOST_JOBS = 10_000;

  private final LruMap<Integer, Long> since = new LruMap<>(MOST_JOBS);
  private final Runnable offerAgain;
  private final LongSupplier dropped;
  private final ScheduledThreadPoolExecutor clock = Safely.clock("iqcar-rules-held", 1);
  private boolean late;
  /** When a job was held last. */
  private long newest;
  private long droppedBefore;

  /**
   * @param offerAgain makes Spark offer its slots; called by a thread that holds no lock
   * @param dropped counts the events that Spark has dropped instead of giving an answer
   */
  HeldJobs(Runnable offerAgain, LongSupplier dropped) {
    this.offerAgain = offerAgain;
    this.dropped = dropped;
  }

  /** Tasks of a job came, and its pool is not known. */
  synchronized void hold(int job) {
    long now = System.nanoTime();
    long lost = dropped.getAsLong();
    boolean mayCome = lost == droppedBefore && !clock.isShutdown();
    droppedBefore = lost;
    if (since.putIfAbsent(job, mayCome ? now : now - MOST_NANOS) == null && mayCome) {
      newest = now;
      clock.schedule(() -> expire(job), MOST_MS, TimeUnit.MILLISECONDS);
    }
  }

  /** A job's pool was known when its tasks came. */
  synchronized void inTime() {
    late = false;
  }

  /** A job's pool is known now; returns whether tasks came before. */
  synchronized boolean release(int job) {
    Long from = since.remove(job);
    if (from != null && isFresh(from)) {
      late = false;
    }
    return from != null;
  }

  /** Forgets a job that has ended. */
  synchronized void forget(int job) {
    since.remove(job);
  }

  /** Forgets all jobs but those that run. */
  synchronized void keep(IntPredicate runs) {
    since.keySet().removeIf(job -> !runs.test(job));
  }

  /** Number of jobs whose pool is not known. */
  synchronized int size() {
    return since.size();
  }

  /** Whether any job may be held now. */
  synchronized boolean any() {
    return !late && !since.isEmpty() && isFresh(newest);
  }

  synchronized boolean holds(int job) {
    Long from = late ? null : since.get(job);
    return from != null && isFresh(from);
  }

  private static boolean isFresh(long from) {
    return System.nanoTime() - from < MOST_NANOS;
  }

  /** Holds a job no longer, nor any other until an answer comes in time. */
  void expire(int job) {
    synchronized (this) {
      if (!since.containsKey(job)) {
        return;
      }
      late = true;
    }
    Safely.run("offering slots to a job that was held", offerAgain::run);
  }

  /** Holds no job any more. */
  void stop() {
    clock.shutdown();
  }
}
