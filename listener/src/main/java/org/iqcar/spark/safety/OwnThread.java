package org.iqcar.spark.safety;

/**
 * Makes the plugin's threads: daemons that end quietly, whatever they meet.
 *
 * <p>Spark's executors exit where a thread leaves anything uncaught, be it ours and out of memory.
 */
public final class OwnThread {
  private OwnThread() {}

  /** Makes a thread, which the caller starts; what the work throws is counted and goes no further. */
  public static Thread of(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.setUncaughtExceptionHandler((self, failure) -> Failures.note(name, failure));
    return thread;
  }
}
