package org.iqcar.spark.executor.measure;

import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.apache.spark.TaskContext$;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.settings.Settings;

/** Threads that wait for locks, watched by the sampler, by JFR or by nobody, for a benchmark. */
public final class LockLoad {
  private static final int LOCKS = 4;
  /** JFR hands on its events once a second. */
  private static final long FLUSHED_MS = 2_500;
  private static final Object[] MONITORS = new Object[LOCKS];
  private static final ReentrantLock[] QUEUED = new ReentrantLock[LOCKS];
  private static volatile boolean over;

  private LockLoad() {}

  /** What JFR's events say: waits of which they name an owner, in ns. */
  private static final class Flight {
    private final LongAdder owned = new LongAdder();

    /** Java 14 and later have it; this is compiled for Java 8. */
    Flight(Duration threshold) throws Exception {
      Class<?> type = Class.forName("jdk.jfr.consumer.RecordingStream");
      Object stream = type.getConstructor().newInstance();
      Class<?> event = Class.forName("jdk.jfr.consumer.RecordedEvent");
      Method duration = event.getMethod("getDuration");
      Method thread = event.getMethod("getThread", String.class);
      for (String name : new String[] {"jdk.JavaMonitorEnter", "jdk.ThreadPark"}) {
        boolean monitor = name.endsWith("Enter");
        Object settings = type.getMethod("enable", String.class).invoke(stream, name);
        Class.forName("jdk.jfr.EventSettings").getMethod("withoutStackTrace").invoke(settings);
        Class.forName("jdk.jfr.EventSettings").getMethod("withThreshold", Duration.class)
            .invoke(settings, threshold);
        Consumer<Object> told = one -> {
          try {
            long nanos = ((Duration) duration.invoke(one)).toNanos();
            owned.add(monitor && thread.invoke(one, "previousOwner") != null ? nanos : 0);
          } catch (ReflectiveOperationException changed) {
            throw new IllegalStateException(changed);
          }
        };
        type.getMethod("onEvent", String.class, Consumer.class).invoke(stream, name, told);
      }
      type.getMethod("startAsync").invoke(stream);
    }
  }

  /**
   * Prints turns at the locks, the CPU seconds of the JVM, the seconds that threads waited for them
   * by their own clocks, and of how many of these an owner is known.
   *
   * @param args threads, ms for which each holds a lock, seconds, "off", "sampler" or "jfr"
   */
  public static void main(String[] args) throws Exception {
    int threads = Integer.parseInt(args[0]);
    long holdNanos = 1_000_000L * Integer.parseInt(args[1]);
    Sampler sampler = new Sampler(new Settings(key -> null));
    Flight flight = args[3].equals("jfr") ? new Flight(Duration.ofMillis(1)) : null;
    Map<Thread, TaskWatch> watches = new HashMap<>();
    LongAdder turns = new LongAdder();
    LongAdder waited = new LongAdder();
    for (int i = 0; i < LOCKS; i++) {
      MONITORS[i] = new Object();
      QUEUED[i] = new ReentrantLock();
    }
    CountDownLatch begun = new CountDownLatch(threads);
    for (int i = 0; i < threads; i++) {
      int number = i;
      Thread thread = new Thread(() -> {
        try {
          TaskWatch watch = sampler.watch(TaskContext$.MODULE$.empty());
          synchronized (watches) {
            watches.put(Thread.currentThread(), watch);
          }
          if (args[3].equals("sampler")) {
            sampler.add(watch);
          }
          begun.countDown();
          take(number, holdNanos, turns, waited);
        } catch (Exception failure) {
          throw new IllegalStateException(failure);
        }
      });
      thread.setDaemon(true);
      thread.start();
    }
    begun.await();
    if (args[3].equals("sampler")) {
      Safely.thread("iqcar-sampler", sampler::run).start();
    }
    com.sun.management.OperatingSystemMXBean system =
        (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = system.getProcessCpuTime();
    Thread.sleep(1000L * Integer.parseInt(args[2]));
    cpu = system.getProcessCpuTime() - cpu;
    over = true;
    for (Thread thread : watches.keySet()) {
      thread.join();
    }
    double owned = 0;
    if (flight != null) {
      Thread.sleep(FLUSHED_MS);
      owned = flight.owned.sum();
    }
    for (TaskWatch watch : watches.values()) {
      owned += watch.ownedNanos();
    }
    System.out.printf("%d %f %f %f%n", turns.sum(), cpu / 1e9, waited.sum() / 1e9, owned / 1e9);
    System.exit(0);
  }

  /** Takes one of the locks again and again: a monitor every other time. */
  private static void take(int number, long holdNanos, LongAdder turns, LongAdder waited) {
    for (int turn = number; !over; turn++) {
      int lock = turn / 2 % LOCKS;
      long asked = System.nanoTime();
      if (turn % 2 == 0) {
        synchronized (MONITORS[lock]) {
          waited.add(System.nanoTime() - asked);
          LockSupport.parkNanos(holdNanos);
        }
      } else {
        QUEUED[lock].lock();
        try {
          waited.add(System.nanoTime() - asked);
          LockSupport.parkNanos(holdNanos);
        } finally {
          QUEUED[lock].unlock();
        }
      }
      turns.increment();
    }
  }
}
