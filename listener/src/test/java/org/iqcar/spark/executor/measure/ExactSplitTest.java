package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.iqcar.spark.events.WaitClass;
import org.junit.jupiter.api.Test;

/** Parts of an exact total by sampled weights. */
class ExactSplitTest {
  @Test
  void partsSumToTheTotal() {
    Random random = new Random(3);
    for (int round = 0; round < 1000; round++) {
      double[] weights = new double[WaitClass.ALL.length];
      for (int i = random.nextInt(weights.length); i > 0; i--) {
        weights[random.nextInt(weights.length)] = random.nextDouble() * 1e12;
      }
      long total = random.nextLong() >>> (1 + random.nextInt(60));
      long[] parts = ExactSplit.split(total, weights);
      assertEquals(total, Arrays.stream(parts).sum());
      for (int i = 0; i < parts.length; i++) {
        assertTrue(parts[i] >= 0);
        assertTrue(weights[i] > 0 || parts[i] == 0 || i == WaitClass.OTHER.ordinal());
      }
    }
  }

  @Test
  void timeWithoutAnySampleIsOther() {
    long[] parts = ExactSplit.split(17, new double[WaitClass.ALL.length]);
    assertEquals(17, parts[WaitClass.OTHER.ordinal()]);
  }
}
