package org.iqcar.spark.safety;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;

/** Reads private state of Spark by reflection, where Spark has no public way. */
public final class SparkInternals {
  private SparkInternals() {}

  /** The field of that name, made accessible; Scala may prefix it with the class's name and $$. */
  public static Field field(Object holder, String name) throws NoSuchFieldException {
    for (Class<?> type = holder.getClass(); type != null; type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (field.getName().equals(name) || field.getName().endsWith("$$" + name)) {
          field.setAccessible(true);
          return field;
        }
      }
    }
    throw new NoSuchFieldException(holder.getClass().getName() + "." + name);
  }

  public static Object get(Object holder, String name) throws ReflectiveOperationException {
    return field(holder, name).get(holder);
  }

  /** Calls a public method without parameters, whatever it returns. */
  public static Object call(Object target, String name) throws ReflectiveOperationException {
    Method method = target.getClass().getMethod(name);
    method.setAccessible(true);
    return method.invoke(target);
  }

  /** The elements of the Seq that a method returns; its package differs between Scala versions. */
  public static List<Object> sequence(Object target, String name)
      throws ReflectiveOperationException {
    List<Object> found = new ArrayList<>();
    scala.collection.Iterator<?> each =
        (scala.collection.Iterator<?>) call(call(target, name), "iterator");
    while (each.hasNext()) {
      found.add(each.next());
    }
    return found;
  }

  /** The value of a key in a Scala map, or null. */
  public static Object option(Object map, Object key) throws ReflectiveOperationException {
    Method get = map.getClass().getMethod("get", Object.class);
    get.setAccessible(true);
    scala.Option<?> found = (scala.Option<?>) get.invoke(map, key);
    return found.isDefined() ? found.get() : null;
  }

  /** The context under construction, which Spark's public interface does not give to listeners. */
  public static SparkContext contextBeingMade() throws ReflectiveOperationException {
    scala.Option<?> making =
        (scala.Option<?>) get(SparkContext$.MODULE$, "contextBeingConstructed");
    return (SparkContext) making.get();
  }
}
