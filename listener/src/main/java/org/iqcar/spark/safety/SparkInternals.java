package org.iqcar.spark.safety;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
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
  public static Object mapGet(Object map, Object key) throws ReflectiveOperationException {
    Method get = map.getClass().getMethod("get", Object.class);
    get.setAccessible(true);
    scala.Option<?> found = (scala.Option<?>) get.invoke(map, key);
    return found.isDefined() ? found.get() : null;
  }

  /**
   * Throws unless Spark still has all that a class stands in for: each of its public methods
   * overrides one, and none is left to be implemented. Spark would call the class in vain, or fail.
   */
  public static void checkOverrides(Class<?> made) throws NoSuchMethodException {
    for (Method method : made.getMethods()) {
      if (Modifier.isAbstract(method.getModifiers())) {
        throw new NoSuchMethodException(made.getName() + " lacks " + method);
      }
      boolean own = method.getDeclaringClass() == made && !method.isSynthetic()
          && !Modifier.isStatic(method.getModifiers());
      boolean known = !own || has(made.getSuperclass(), method);
      for (Class<?> type : made.getInterfaces()) {
        known |= has(type, method);
      }
      if (!known) {
        throw new NoSuchMethodException(made.getName() + " overrides nothing by " + method);
      }
    }
  }

  private static boolean has(Class<?> type, Method wanted) {
    for (Method method : type.getMethods()) {
      if (method.getName().equals(wanted.getName())
          && method.getReturnType() == wanted.getReturnType()
          && Arrays.equals(method.getParameterTypes(), wanted.getParameterTypes())) {
        return true;
      }
    }
    return false;
  }

  /** The context under construction, which Spark's public interface does not give to listeners. */
  public static SparkContext contextBeingMade() throws ReflectiveOperationException {
    scala.Option<?> making =
        (scala.Option<?>) get(SparkContext$.MODULE$, "contextBeingConstructed");
    return (SparkContext) making.get();
  }
}
