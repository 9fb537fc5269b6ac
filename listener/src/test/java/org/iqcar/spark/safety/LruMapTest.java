package org.iqcar.spark.safety;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;

class LruMapTest {
  @Test
  void theValuesNeverWeighMoreUnlessOneAloneDoes() {
    LruMap<Integer, String> map = new LruMap<>(10, 100, String::length);
    Random random = new Random(1);
    for (int i = 0; i < 10_000; i++) {
      int key = random.nextInt(30);
      int length = random.nextInt(60) == 0 ? 200 : random.nextInt(40);
      if (random.nextInt(4) == 0) {
        map.remove(key);
      } else {
        String value = String.format("%200d", i).substring(200 - length);
        map.put(key, value);
        assertEquals(value, map.get(key));
      }
      int held = map.values().stream().mapToInt(String::length).sum();
      assertTrue(map.size() <= 10 && (held <= 100 || map.size() == 1), map.toString());
    }
    assertTrue(map.size() > 2, "little is forgotten before it must be");
  }

  @Test
  void theLeastRecentlyUsedIsForgottenFirst() {
    LruMap<String, String> map = new LruMap<>(10, 6, String::length);
    map.put("a", "11");
    map.put("b", "22");
    map.put("c", "33");
    map.get("a");
    map.put("d", "44");
    assertEquals("{c=33, a=11, d=44}", map.toString());
  }
}
