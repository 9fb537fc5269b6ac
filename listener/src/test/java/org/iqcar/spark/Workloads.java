package org.iqcar.spark;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.spark.HashPartitioner;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.MemoryMode;
import scala.Tuple2;

/**
 * Runs jobs whose waits are known beforehand, each in a job group of its name.
 *
 * <p>Arguments: names of workloads in order, each with :argument where it takes one.
 */
public final class Workloads {
  private static volatile Latches latches = new Latches();

  private Workloads() {}

  /** What the tasks of one application tell each other; they run in one JVM. */
  private static final class Latches {
    private final Object lock = new Object();
    private final CountDownLatch lockHeld = new CountDownLatch(1);
    private final CountDownLatch lockWanted = new CountDownLatch(1);
    private final CountDownLatch memoryHeld = new CountDownLatch(1);
    private final CountDownLatch memoryWanted = new CountDownLatch(1);
    private final CountDownLatch allTaken = new CountDownLatch(1);
    private final CountDownLatch partWanted = new CountDownLatch(1);
    private final Object room = new Object();
    private final CountDownLatch roomTaken = new CountDownLatch(1);
    private final CountDownLatch roomWanted = new CountDownLatch(2);
  }

  public static void main(String[] args) throws Exception {
    latches = new Latches();
    try (JavaSparkContext sc = new JavaSparkContext(new SparkConf())) {
      for (String workload : args) {
        String[] parts = workload.split(":", 2);
        sc.setJobGroup(parts[0], parts[0], parts[0].equals("killed"));
        run(sc, parts[0], parts.length > 1 ? parts[1] : "");
        System.out.println("DONE " + parts[0]);
      }
    }
  }

  private static void run(JavaSparkContext sc, String name, String argument) throws Exception {
    switch (name) {
      case "lock": each(sc, 2, i -> lock(i)); break;
      case "memory": each(sc, 2, i -> memory(i)); break;
      case "hoard": hoard(sc); break;
      case "queue": queue(sc); break;
      case "notify": each(sc, 1, i -> await()); break;
      case "sleep": each(sc, 1, i -> Thread.sleep(1_000)); break;
      case "fifo": each(sc, 1, i -> read(argument)); break;
      case "pages": each(sc, 1, i -> touch(argument)); break;
      case "spin": each(sc, 4, i -> spin(800)); break;
      case "many": each(sc, argument.isEmpty() ? 200 : Integer.parseInt(argument), i -> spin(1)); break;
      case "long": each(sc, 1, i -> stripes(Integer.parseInt(argument))); break;
      case "failed": each(sc, 1, i -> failOnce()); break;
      case "killed": killed(sc); break;
      case "pooled":
        sc.setLocalProperty("spark.scheduler.pool", argument);
        each(sc, 2, i -> spin(1));
        sc.setLocalProperty("spark.scheduler.pool", null);
        break;
      case "fetch": fetch(sc, new File(argument)); break;
      case "hold": hold(sc, argument.split(",", 2)); break;
      case "doze": each(sc, Integer.parseInt(argument), i -> Thread.sleep(500)); break;
      case "nap": each(sc, 12, i -> Thread.sleep(1_500)); break;
      case "pair": pair(sc); break;
      default: throw new IllegalArgumentException(name);
    }
  }

  /** Two jobs, of which the second comes while the first still wants slots. */
  private static void pair(JavaSparkContext sc) throws Exception {
    JavaFutureAction<Void> first = numbers(sc, 8).foreachAsync(i -> Thread.sleep(300));
    JavaFutureAction<Void> second = numbers(sc, 8).foreachAsync(i -> Thread.sleep(300));
    first.get();
    second.get();
  }

  /** Holds so many slots until a file appears; each task writes one beside it when it starts. */
  private static void hold(JavaSparkContext sc, String[] tasksAndFile) {
    String file = tasksAndFile[1];
    each(sc, Integer.parseInt(tasksAndFile[0]), i -> {
      new File(file + "-" + i).createNewFile();
      while (!new File(file).exists()) {
        Thread.sleep(50);
      }
    });
  }

  private static void each(JavaSparkContext sc, int tasks, VoidFunction<Integer> action) {
    numbers(sc, tasks).foreach(action);
  }

  private static JavaRDD<Integer> numbers(JavaSparkContext sc, int tasks) {
    List<Integer> numbers = new ArrayList<>();
    for (int i = 0; i < tasks; i++) {
      numbers.add(i);
    }
    return sc.parallelize(numbers, tasks);
  }

  private static void lock(int task) throws InterruptedException {
    if (task == 0) {
      synchronized (latches.lock) {
        latches.lockHeld.countDown();
        latches.lockWanted.await();
        Thread.sleep(1_000);
      }
    } else {
      latches.lockHeld.await();
      latches.lockWanted.countDown();
      synchronized (latches.lock) {
        latches.lock.notifyAll();
      }
    }
  }

  /** Holds memory and, asked by another consumer, gives none of it back. */
  private static final class Holder extends MemoryConsumer {
    Holder() {
      super(TaskContext.get().taskMemoryManager(), 1 << 20, MemoryMode.ON_HEAP);
    }

    @Override
    public long spill(long size, MemoryConsumer trigger) {
      return 0;
    }
  }

  /** The first task takes the whole pool until the second has waited for its part for 1 s. */
  private static void memory(int task) throws InterruptedException {
    Holder holder = new Holder();
    if (task == 0) {
      holder.acquireMemory(Long.MAX_VALUE / 2);
      latches.memoryHeld.countDown();
      latches.memoryWanted.await();
      Thread.sleep(1_000);
    } else {
      latches.memoryHeld.await();
      latches.memoryWanted.countDown();
      holder.acquireMemory(Long.MAX_VALUE / 2);
    }
    holder.freeMemory(holder.getUsed());
  }

  /** Runs three queries at once: one takes all memory, one waits for its part, one needs none. */
  private static void hoard(JavaSparkContext sc) throws InterruptedException {
    together(
      query(sc, "holder", () -> {
        Holder holder = new Holder();
        holder.acquireMemory(Long.MAX_VALUE / 2);
        latches.allTaken.countDown();
        latches.partWanted.await();
        Thread.sleep(2_000);
        holder.freeMemory(holder.getUsed());
      }),
      query(sc, "starved", () -> {
        Holder holder = new Holder();
        latches.allTaken.await();
        latches.partWanted.countDown();
        holder.acquireMemory(Long.MAX_VALUE / 2);
        holder.freeMemory(holder.getUsed());
      }),
      query(sc, "bystander", () -> {
        latches.partWanted.await();
        Thread.sleep(2_000);
      }));
  }

  /**
   * Runs four queries at once: one holds a lock for 2 s, two wait for it and then hold it for 1 s
   * one after the other, and one has nothing to do with it.
   */
  private static void queue(JavaSparkContext sc) throws InterruptedException {
    together(
      query(sc, "keeper", () -> {
        synchronized (latches.room) {
          latches.roomTaken.countDown();
          latches.roomWanted.await();
          Thread.sleep(2_000);
        }
      }),
      query(sc, "outside-1", () -> enter()),
      query(sc, "outside-2", () -> enter()),
      query(sc, "passer-by", () -> {
        latches.roomWanted.await();
        spin(300);
        Thread.sleep(3_000);
      }));
  }

  private static void enter() throws InterruptedException {
    latches.roomTaken.await();
    latches.roomWanted.countDown();
    synchronized (latches.room) {
      Thread.sleep(1_000);
    }
  }

  private static void together(Thread... queries) throws InterruptedException {
    for (Thread query : queries) {
      query.start();
    }
    for (Thread query : queries) {
      query.join();
    }
  }

  /** What a task does; serialisable because it is sent to one. */
  private interface Work extends Serializable {
    void run() throws Exception;
  }

  /** A thread that runs one task in a job group of its own. */
  private static Thread query(JavaSparkContext sc, String name, Work work) {
    return new Thread(() -> {
      sc.setJobGroup(name, name);
      each(sc, 1, i -> work.run());
    });
  }

  private static void await() throws InterruptedException {
    Object never = new Object();
    long end = System.nanoTime() + 1_000_000_000L;
    synchronized (never) {
      for (long left = 1_000; left > 0; left = (end - System.nanoTime()) / 1_000_000L) {
        never.wait(left);
      }
    }
  }

  private static void read(String path) throws IOException {
    try (InputStream in = new FileInputStream(path)) {
      byte[] buffer = new byte[4096];
      while (in.read(buffer) >= 0) {
        // The data are discarded: only the wait counts.
      }
    }
  }

  /** Reads a byte of each MB of a mapped file, backwards, so that little is read ahead. */
  private static void touch(String path) throws IOException {
    try (FileChannel channel = FileChannel.open(Paths.get(path))) {
      MappedByteBuffer pages = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
      long sum = 0;
      for (int at = pages.capacity() - 1; at >= 0; at -= 1 << 20) {
        sum += pages.get(at);
      }
      System.out.println("TOUCHED " + sum);
    }
  }

  /** Writes shuffle files on two executors and, once that file exists, reads them again. */
  private static void fetch(JavaSparkContext sc, File go) throws InterruptedException {
    JavaPairRDD<Integer, byte[]> shuffled = sc.parallelize(Arrays.asList(0, 1), 2)
        .flatMapToPair(task -> {
          Thread.sleep(1_500); // long enough for the other executor to take the other task
          Random random = new Random(task);
          List<Tuple2<Integer, byte[]>> blocks = new ArrayList<>();
          for (int i = 0; i < 40; i++) {
            byte[] block = new byte[100_000];
            random.nextBytes(block);
            blocks.add(new Tuple2<>(i, block));
          }
          return blocks.iterator();
        })
        .partitionBy(new HashPartitioner(2));
    shuffled.count();
    System.out.println("WRITTEN");
    while (!go.exists()) {
      Thread.sleep(50);
    }
    sc.setJobGroup("fetched", "fetched");
    shuffled.count();
  }

  /** Computes until the thread has used so much processor time. */
  private static void spin(int cpuMs) {
    ThreadMXBean clock = ManagementFactory.getThreadMXBean();
    long start = clock.getCurrentThreadCpuTime();
    long sum = 0;
    while (clock.getCurrentThreadCpuTime() - start < cpuMs * 1_000_000L) {
      for (int i = 0; i < 10_000; i++) {
        sum += i ^ sum;
      }
    }
    if (sum == 42) {
      System.out.println(sum);
    }
  }

  /** Sleeps the first half and computes the second. */
  private static void stripes(int ms) throws InterruptedException {
    Thread.sleep(ms / 2);
    spin(ms / 2);
  }

  private static void failOnce() throws InterruptedException {
    Thread.sleep(300);
    if (TaskContext.get().attemptNumber() == 0) {
      throw new IllegalStateException("fails the first time");
    }
  }

  private static void killed(JavaSparkContext sc) {
    Thread killer = new Thread(() -> {
      try {
        Thread.sleep(1_500);
        sc.cancelJobGroup("killed");
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    });
    killer.start();
    try {
      each(sc, 1, i -> Thread.sleep(60_000));
    } catch (Exception cancelled) {
      System.out.println("CANCELLED");
    }
  }
}
