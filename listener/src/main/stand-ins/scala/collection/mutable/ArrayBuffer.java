package scala.collection.mutable;

/**
 * Stands in for Scala's class while {@code TurnQueue} is compiled, and is not in the jar: javac
 * takes no subclass of the real one, which inherits methods that differ in Scala's types only.
 */
public class ArrayBuffer<A> {
  public <U> void foreach(scala.Function1<A, U> action) {}
}
