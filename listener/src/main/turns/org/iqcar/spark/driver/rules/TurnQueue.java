package org.iqcar.spark.driver.rules;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import scala.Function1;
import scala.collection.mutable.ArrayBuffer;

/** A Scala list that lets somebody else walk through it: who has a turn, and when it ends. */
final class TurnQueue<T> extends ArrayBuffer<T> {
  private static final long serialVersionUID = 1L;
  private static final MethodHandle ADD = add();

  private final transient BiConsumer<List<T>, Consumer<T>> walk;
  private final transient List<T> all;

  /**
   * Makes a list.
   *
   * @param all the elements
   * @param walk gets them and what is to be done with one; it may leave some out, or repeat some
   */
  TurnQueue(List<T> all, BiConsumer<List<T>, Consumer<T>> walk) {
    this.all = all;
    this.walk = walk;
    try {
      for (T each : all) {
        ADD.invoke(this, each);
      }
    } catch (RuntimeException | Error failure) {
      throw failure;
    } catch (Throwable failure) {
      throw new IllegalStateException(failure);
    }
  }

  @Override
  public <U> void foreach(Function1<T, U> action) {
    walk.accept(all, action::apply);
  }

  /** Scala 2.13 and 2.12 name the method that adds an element differently. */
  private static MethodHandle add() {
    MethodType type = MethodType.methodType(ArrayBuffer.class, Object.class);
    try {
      return MethodHandles.publicLookup().findVirtual(ArrayBuffer.class, "addOne", type);
    } catch (ReflectiveOperationException older) {
      try {
        return MethodHandles.publicLookup().findVirtual(ArrayBuffer.class, "$plus$eq", type);
      } catch (ReflectiveOperationException other) {
        throw new IllegalStateException(other);
      }
    }
  }
}
