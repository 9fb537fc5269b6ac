package org.iqcar.spark;

import java.io.File;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.Arrays;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;

/** Holds up what all queries of a driver share: its event loop, and its queue of listeners. */
public final class HeldLoop {
  private HeldLoop() {}

  /**
   * Runs a job whose function takes long to be sent: the scheduler's event loop, which sends it,
   * creates a file, and goes on some time after another file has appeared.
   */
  public static void run(JavaSparkContext sc, String held, String go, long pauseMs) {
    sc.parallelize(Arrays.asList(1), 1).map(new SlowToSend(held, go, pauseMs)).count();
  }

  /** Adds a listener to the queue of all listeners that pauses whenever a stage has completed. */
  public static void slowListener(JavaSparkContext sc, long pauseMs) {
    sc.sc().addSparkListener(new SparkListener() {
      @Override
      public void onStageCompleted(SparkListenerStageCompleted event) {
        pause(pauseMs);
      }
    });
  }

  private static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  private static final class SlowToSend implements Function<Integer, Integer> {
    private static final long serialVersionUID = 1L;
    private final String held;
    private final String go;
    private final long pauseMs;

    SlowToSend(String held, String go, long pauseMs) {
      this.held = held;
      this.go = go;
      this.pauseMs = pauseMs;
    }

    @Override
    public Integer call(Integer value) {
      return value;
    }

    private void writeObject(ObjectOutputStream out) throws IOException {
      // The user's thread writes it, too, to see whether it can be sent.
      if (Thread.currentThread().getName().startsWith("dag-scheduler")
          && new File(held).createNewFile()) {
        while (!new File(go).exists()) {
          pause(20);
        }
        pause(pauseMs);
      }
      out.defaultWriteObject();
    }
  }
}
