package org.iqcar.spark.safety;

import java.util.concurrent.Callable;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Runs what is ours, under a name, in the caller's thread or in one of our own. Whatever it throws, be
 * the memory full, is counted once under that name ({@link Failures}) and goes no further: Spark's
 * threads and their tasks go on, and no executor exits.
 */
public final class Safely {
  /** Lets a test make what runs under a name fail; null without the test jar. */
  private static final Consumer<String> FAULTS = faults();

  private Safely() {}

  /** Something that may fail. */
  public interface Work {
    void run() throws Exception;
  }

  /** Does something; returns whether it ended without a failure. */
  public static boolean run(String name, Work work) {
    return get(name, false, () -> {
      work.run();
      return true;
    });
  }

  /** Computes something; what it would otherwise be where that fails. */
  public static <T> T get(String name, T otherwise, Callable<T> work) {
    try {
      if (FAULTS != null) {
        FAULTS.accept(name);
      }
      return work.call();
    } catch (Throwable failure) {
      Failures.note(name, failure);
      return otherwise;
    }
  }

  /** Makes a daemon thread, which the caller starts. */
  public static Thread thread(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    // Spark's own handler ends an executor.
    thread.setUncaughtExceptionHandler((self, failure) -> Failures.note(name, failure));
    return thread;
  }

  /**
   * Makes so many daemon threads at most, for what is to be done later or again and again. They end
   * where there is nothing to do; nothing begins after the shutdown.
   */
  public static ScheduledThreadPoolExecutor clock(String name, int threads) {
    ScheduledThreadPoolExecutor clock =
        new ScheduledThreadPoolExecutor(threads, work -> thread(name, work));
    clock.setKeepAliveTime(10, TimeUnit.SECONDS);
    clock.allowCoreThreadTimeOut(true);
    clock.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    return clock;
  }

  @SuppressWarnings("unchecked")
  private static Consumer<String> faults() {
    try {
      Class<?> hook = Class.forName(
          "org.iqcar.spark.safety.FaultInjection", true, Safely.class.getClassLoader());
      return (Consumer<String>) hook.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException | LinkageError absent) {
      return null;
    }
  }
}
