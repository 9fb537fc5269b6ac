package org.iqcar.spark.safety;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;

/** Reads and sets private state of Spark, where Spark offers no other way. */
public final class SparkInternals {
  private SparkInternals() {}

  /** The field of that name; Scala may have put the class's name and $$ before it. */
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

  /** Calls a public method without parameters whatever it returns: Seq differs between Scalas. */
  public static Object call(Object target, String name) throws ReflectiveOperationException {
    Method method = target.getClass().getMethod(name);
    method.setAccessible(true);
    return method.invoke(target);
  }

  /** What a method returns as a Scala Seq, whose package differs between Scalas. */
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

  /** What a Scala map holds for a key, or null. */
  public static Object option(Object map, Object key) throws ReflectiveOperationException {
    Method get = map.getClass().getMethod("get", Object.class);
    get.setAccessible(true);
    scala.Option<?> found = (scala.Option<?>) get.invoke(map, key);
    return found.isDefined() ? found.get() : null;
  }

  /** The context that is being made while its listeners are. */
  public static SparkContext contextBeingMade() throws ReflectiveOperationException {
    scala.Option<?> making =
        (scala.Option<?>) get(SparkContext$.MODULE$, "contextBeingConstructed");
    return (SparkContext) making.get();
  }
}
