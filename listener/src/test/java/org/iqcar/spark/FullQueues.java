package org.iqcar.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListenerInterface;
import org.iqcar.spark.safety.DroppedEvents;

/**
 * Keeps Spark's queues of events full until it is told to stop: a listener in each takes an event
 * only when Spark has dropped another one, or none has come for a while. So about half are lost on
 * any machine.
 */
public final class FullQueues {
  private static final int MOST_MS = 100;

  private final DroppedEvents dropped;
  private volatile boolean slow = true;

  private FullQueues(SparkContext sc) {
    dropped = new DroppedEvents(sc);
  }

  /** Slows down the queues of the event log, of added listeners and of rules. */
  public static FullQueues of(SparkContext sc) {
    FullQueues made = new FullQueues(sc);
    Class<?> type = SparkListenerInterface.class;
    for (String queue : Arrays.asList("eventLog", "shared", "iqcar")) {
      sc.listenerBus().addToQueue((SparkListenerInterface) Proxy.newProxyInstance(
          type.getClassLoader(), new Class<?>[] {type}, made.listener(queue)), queue);
    }
    return made;
  }

  private InvocationHandler listener(String queue) {
    return (listener, method, arguments) -> {
      switch (method.getName()) {
        case "equals":
          return listener == arguments[0];
        case "hashCode":
          return System.identityHashCode(listener);
        case "toString":
          return FullQueues.class.getName();
        default:
          awaitDrop(queue);
          return null;
      }
    };
  }

  private void awaitDrop(String queue) throws InterruptedException {
    long before = dropped.of(queue);
    for (int ms = 0; slow && ms < MOST_MS && dropped.of(queue) == before; ms++) {
      Thread.sleep(1);
    }
  }

  /** Listens as fast as can be from now on. */
  public void stop() {
    slow = false;
  }

  /** What the queues have dropped, as JSON. */
  public static String dropped(SparkContext sc) throws Exception {
    return new ObjectMapper().writeValueAsString(new DroppedEvents(sc).byQueue());
  }
}
