package org.iqcar.spark.safety;

import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** Fails at the places named in the system property iqcar.test.fail (comma separated, or all). */
public final class FaultInjection implements Consumer<String> {
  @Override
  public void accept(String place) {
    String places = System.getProperty("iqcar.test.fail", "");
    if (places.equals("kill-sampler") && place.equals("sampler")) {
      throw new ThreadDeath();
    }
    if (places.equals("all") || Arrays.asList(places.split(",")).contains(place)) {
      throw new LinkageError("injected at " + place);
    }
  }

  /** Counts the plugin's failures from 0 again, as in a JVM that has just started. */
  public static void forgetFailures() throws ReflectiveOperationException {
    ((AtomicLong) kept("COUNT")).set(0);
    ((Map<?, ?>) kept("PLACES")).clear();
  }

  private static Object kept(String name) throws ReflectiveOperationException {
    Field field = Failures.class.getDeclaredField(name);
    field.setAccessible(true);
    return field.get(null);
  }
}
