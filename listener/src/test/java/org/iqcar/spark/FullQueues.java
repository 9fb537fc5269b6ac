package org.iqcar.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListenerInterface;
import org.iqcar.spark.safety.DroppedEvents;

/** Keeps Spark's queues of events full, by a slow listener in each, until it is told to stop. */
public final class FullQueues implements InvocationHandler {
  private static final int EVENT_MS = 20;

  private volatile boolean slow = true;

  private FullQueues() {}

  /** Slows down the queues of the event log, of added listeners and of rules. */
  public static FullQueues of(SparkContext sc) {
    FullQueues made = new FullQueues();
    Class<?> type = SparkListenerInterface.class;
    for (String queue : Arrays.asList("eventLog", "shared", "iqcar")) {
      sc.listenerBus().addToQueue((SparkListenerInterface) Proxy.newProxyInstance(
          type.getClassLoader(), new Class<?>[] {type}, made), queue);
    }
    return made;
  }

  /** Any event pauses its queue. */
  @Override
  public Object invoke(Object listener, Method method, Object[] arguments)
      throws InterruptedException {
    switch (method.getName()) {
      case "equals":
        return listener == arguments[0];
      case "hashCode":
        return System.identityHashCode(listener);
      case "toString":
        return FullQueues.class.getName();
      default:
        if (slow) {
          Thread.sleep(EVENT_MS);
        }
        return null;
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
