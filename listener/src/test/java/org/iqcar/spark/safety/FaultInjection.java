package org.iqcar.spark.safety;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Makes what runs safely fail under the names in the system property iqcar.test.fail (comma separated,
 * written as metrics write them, or all), and ask for more memory than there is under those in
 * iqcar.test.memory.
 */
public final class FaultInjection implements Consumer<String> {
  /** Holds what would have been made: the JVM's compiler leaves out arrays that nobody sees. */
  private static final List<long[]> LARGEST = new ArrayList<>();

  @Override
  public void accept(String place) {
    if (named("iqcar.test.fail", place)) {
      throw new LinkageError("injected at " + place);
    }
    if (named("iqcar.test.memory", place)) {
      LARGEST.add(new long[Integer.MAX_VALUE]);
    }
  }

  private static boolean named(String property, String place) {
    String places = System.getProperty(property, "");
    return places.equals("all") || !places.isEmpty()
        && Arrays.asList(places.split(",")).contains(place.replaceAll("[^A-Za-z0-9]+", "_"));
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
