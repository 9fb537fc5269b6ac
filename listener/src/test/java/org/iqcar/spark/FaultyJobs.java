package org.iqcar.spark;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.HashPartitioner;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * Runs applications whose jobs fail in every way that Spark has, and prints how each ended.
 *
 * <p>An argument is one application: its name, its jobs and its settings, separated by spaces, such
 * as {@code "first lost,tiny:9 spark.ui.enabled=false"}.
 */
public final class FaultyJobs {
  /** Longest time in which threads and files of an ended application must be gone, in ms. */
  private static final int GONE_IN_MS = 10_000;

  private FaultyJobs() {}

  public static void main(String[] args) throws Exception {
    for (String arg : args) {
      String[] words = arg.split(" ");
      SparkConf conf = new SparkConf().setAppName(words[0]);
      for (int i = 2; i < words.length; i++) {
        String[] pair = words[i].split("=", 2);
        conf.set(pair[0], pair[1].replace('~', ' '));
      }
      run(words[0], words[1].split(","), conf);
    }
    System.out.println("LEFT " + left());
  }

  private static void run(String name, String[] jobs, SparkConf conf) {
    try (JavaSparkContext sc = new JavaSparkContext(conf)) {
      for (String job : jobs) {
        sc.setJobGroup(job, job, job.equals("killed"));
        String outcome;
        try {
          outcome = String.valueOf(job(sc, job));
        } catch (Throwable failure) {
          outcome = kind(failure);
        }
        System.out.println("OUTCOME " + name + " " + job + " " + outcome);
      }
    } catch (Throwable failure) {
      System.out.println("OUTCOME " + name + " start " + kind(failure));
    }
  }

  /** What failed, without ids and hosts. */
  private static String kind(Throwable failure) {
    String text = String.valueOf(failure.getMessage()).split("\n")[0];
    return failure.getClass().getSimpleName() + " " + text.replaceAll("[^A-Za-z ].*", "");
  }

  private static Object job(JavaSparkContext sc, String job) throws Exception {
    String[] parts = job.split(":");
    switch (parts[0]) {
      case "tiny": return numbers(sc, Integer.parseInt(parts[1])).size();
      case "lost": return lost(sc);
      case "slow": return shuffled(sc, 8, false).count();
      case "refetch": return refetch(sc);
      case "large": return large(sc, Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
      case "failing": return failing(sc);
      case "killed": return after(sc, () -> sc.cancelJobGroup("killed"));
      case "stop": return after(sc, sc::stop);
      case "unsampled": return unsampled();
      case "delete": return new File(parts[1]).delete();
      default: throw new IllegalArgumentException(job);
    }
  }

  /** Waits until this host is sampled no more; false if that never happens. */
  private static boolean unsampled() throws InterruptedException {
    long end = System.nanoTime() + 120_000_000_000L;
    while (System.nanoTime() < end) {
      // The first of these threads runs from before the first job.
      if (Thread.getAllStackTraces().keySet().stream()
          .noneMatch(one -> one.getName().startsWith("iqcar-host"))) {
        return true;
      }
      Thread.sleep(10);
    }
    return false;
  }

  private static List<Integer> range(int count) {
    List<Integer> numbers = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      numbers.add(i);
    }
    return numbers;
  }

  private static List<Integer> numbers(JavaSparkContext sc, int tasks) {
    return sc.parallelize(range(tasks), tasks).map(i -> i + 1).collect();
  }

  /** The fifth task of the first attempt kills its executor, which has finished tasks already. */
  private static long lost(JavaSparkContext sc) {
    return shuffled(sc, 8, true).count();
  }

  private static JavaPairRDD<Integer, Integer> shuffled(
      JavaSparkContext sc, int tasks, boolean killing) {
    return sc.parallelize(range(tasks), tasks)
        .mapToPair(i -> {
          Thread.sleep(200);
          TaskContext context = TaskContext.get();
          if (killing && i == 5 && context.attemptNumber() + context.stageAttemptNumber() == 0) {
            String pid = ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
            new ProcessBuilder("kill", "-9", pid).start().waitFor();
            Thread.sleep(60_000);
          }
          return new Tuple2<>(i, i);
        })
        .partitionBy(new HashPartitioner(2));
  }

  /** Deletes the shuffle files of a stage that has ended; Spark has to run it again. */
  private static long refetch(JavaSparkContext sc) {
    JavaPairRDD<Integer, Integer> pairs = shuffled(sc, 4, false);
    long before = pairs.count();
    sc.parallelize(range(4), 4).foreach(i -> {
      Thread.sleep(200);
      for (File folder : SparkEnv.get().blockManager().diskBlockManager().localDirs()) {
        for (File part : folder.listFiles()) {
          for (File file : part.listFiles()) {
            if (file.getName().startsWith("shuffle_")) {
              file.delete();
            }
          }
        }
      }
    });
    return before + pairs.count();
  }

  private static int large(JavaSparkContext sc, int tasks, int bytes) {
    return sc.parallelize(range(tasks), tasks).map(i -> new byte[bytes]).collect().size();
  }

  private static long failing(JavaSparkContext sc) {
    return sc.parallelize(range(4), 4).map(i -> {
      if (TaskContext.get().attemptNumber() == 0 && i == 1) {
        throw new IllegalStateException("fails the first time");
      }
      return i;
    }).count();
  }

  /** Runs a job and does something to it while its tasks sleep. */
  private static long after(JavaSparkContext sc, Runnable action) throws InterruptedException {
    Thread hurting = new Thread(() -> {
      try {
        Thread.sleep(1_500);
        action.run();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    });
    hurting.start();
    try {
      return sc.parallelize(range(6), 6).map(i -> {
        Thread.sleep(i < 2 ? 300 : 5_000);
        return i;
      }).count();
    } finally {
      hurting.join();
    }
  }

  /** The plugin's threads and open kernel files that are left after the applications. */
  private static Map<String, Integer> left() throws InterruptedException {
    Map<String, Integer> left = leftNow();
    for (long end = System.currentTimeMillis() + GONE_IN_MS;
        !left.isEmpty() && System.currentTimeMillis() < end; left = leftNow()) {
      Thread.sleep(100);
    }
    return left;
  }

  private static Map<String, Integer> leftNow() {
    Map<String, Integer> left = new TreeMap<>();
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().startsWith("iqcar")) {
        left.merge(thread.getName(), 1, Integer::sum);
      }
    }
    File[] open = new File("/proc/self/fd").listFiles();
    for (File file : open == null ? new File[0] : open) {
      try {
        String target = file.getCanonicalPath();
        if (target.startsWith("/proc/") && target.contains("/task/")) {
          left.merge("kernel files", 1, Integer::sum);
        }
      } catch (java.io.IOException closed) {
        // The folder itself was open while it was listed.
      }
    }
    return left;
  }
}
