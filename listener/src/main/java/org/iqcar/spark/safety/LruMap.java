package org.iqcar.spark.safety;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.ToIntFunction;

/**
 * A map of bounded size that drops its least recently used entries. Not thread-safe. Where values
 * have weights, they enter by {@code put} and leave by {@code remove} of a key alone.
 */
public final class LruMap<K, V> extends LinkedHashMap<K, V> {
  private static final long serialVersionUID = 1L;
  private final int most;
  private final long mostWeight;
  private final transient ToIntFunction<V> weight;
  private long held;

  public LruMap(int most) {
    this(most, 0, value -> 0);
  }

  /**
   * Makes a map of values that weigh so much together at most; one alone may be heavier.
   *
   * @param weight what a value weighs, as long as it is in the map
   */
  public LruMap(int most, long mostWeight, ToIntFunction<V> weight) {
    super(16, 0.75f, true);
    this.most = most;
    this.mostWeight = mostWeight;
    this.weight = weight;
  }

  @Override
  public V put(K key, V value) {
    V old = super.put(key, value);
    held += weigh(value) - weigh(old);
    while (held > mostWeight && size() > 1) {
      Iterator<V> eldest = values().iterator();
      held -= weigh(eldest.next());
      eldest.remove();
    }
    return old;
  }

  @Override
  public V remove(Object key) {
    V old = super.remove(key);
    held -= weigh(old);
    return old;
  }

  @Override
  protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
    boolean full = size() > most;
    held -= full ? weigh(eldest.getValue()) : 0;
    return full;
  }

  private int weigh(V value) {
    return value == null ? 0 : weight.applyAsInt(value);
  }
}
