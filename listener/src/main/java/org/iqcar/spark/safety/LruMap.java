package org.iqcar.spark.safety;

import java.util.LinkedHashMap;
import java.util.Map;

/** A map of bounded size that drops its least recently used entry. Not thread-safe. */
public final class LruMap<K, V> extends LinkedHashMap<K, V> {
  private static final long serialVersionUID = 1L;
  private final int most;

  public LruMap(int most) {
    super(16, 0.75f, true);
    this.most = most;
  }

  @Override
  protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
    return size() > most;
  }
}
