package org.iqcar.spark.executor.measure;

import org.iqcar.spark.events.WaitClass;

/** Splits an exact total by sampled weights, so that the parts sum to the total. */
final class ExactSplit {
  private ExactSplit() {}

  /** Parts of the total, one per class of waiting; without any weight, all of it is OTHER. */
  static long[] split(long total, double[] weights) {
    long[] parts = new long[weights.length];
    double sum = 0;
    int largest = WaitClass.OTHER.ordinal();
    for (int i = 0; i < weights.length; i++) {
      sum += weights[i];
      if (weights[i] > weights[largest]) {
        largest = i;
      }
    }
    long left = total;
    if (sum > 0) {
      for (int i = 0; i < weights.length; i++) {
        parts[i] = Math.min(left, (long) (total * (weights[i] / sum)));
        left -= parts[i];
      }
    }
    parts[largest] += left;
    return parts;
  }
}
