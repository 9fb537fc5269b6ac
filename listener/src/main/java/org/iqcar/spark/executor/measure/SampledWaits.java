package org.iqcar.spark.executor.measure;

import java.util.stream.DoubleStream;
import org.iqcar.spark.events.WaitClass;

/**
 * Estimates how one task's waits split into classes, when only some of its stacks were read.
 *
 * <p>A wait is known from the look on at which its stack is read until the thread runs again, and
 * back to its begin. So long waits are known more often than short ones, and adding up what is
 * known would favour them. Instead the first look at each wait is a sample on its own: which of
 * them are read does not depend on the class, so the classes of those that were read at once stand
 * for all (Horvitz and Thompson's estimator, as a ratio). The later looks are added up as known.
 * Guarded by the watch's lock.
 */
final class SampledWaits {
  private static final int CLASSES = WaitClass.ALL.length;

  private final double[] counted = new double[CLASSES];
  private final double[] atOnce = new double[CLASSES];
  private final double[] later = new double[CLASSES];
  private double firsts;
  private double lost;
  private double firstNow;
  private double laterNow;
  private double looksNow;
  private double wanted;
  private double taken;

  /** A clock counted so much wait of a class. */
  void counted(WaitClass wait, double nanos) {
    counted[wait.ordinal()] += nanos;
  }

  /**
   * A look found the thread asleep.
   *
   * @param nanos its wait since the look before
   * @param first whether the thread has run since the look before
   * @param stands how many looks it stands for
   */
  void asleep(double nanos, boolean first, double stands) {
    if (first) {
      lost += laterNow;
      firsts += nanos;
      firstNow = nanos;
      laterNow = 0;
      looksNow = 0;
    } else {
      firstNow = 0;
      laterNow += nanos;
    }
    // Looks that a longer period leaves out find nothing new while the thread does not run.
    wanted += first ? stands : 1;
    looksNow++;
  }

  /** A look told the class of the wait without a stack: it stands for no other wait. */
  void told(WaitClass wait, double nanos) {
    lost += laterNow;
    firstNow = 0;
    laterNow = 0;
    looksNow = 0;
    counted(wait, nanos);
  }

  /** The present wait, or a part of it, is of a class; {@link #taken} follows. */
  void known(WaitClass wait, double part) {
    atOnce[wait.ordinal()] += part * firstNow;
    later[wait.ordinal()] += part * laterNow;
  }

  /** The stack of the present wait was read, or need not be; null if it did not show the wait. */
  void taken(WaitClass wait) {
    if (wait == null) {
      lost += laterNow;
    }
    taken += looksNow;
    firstNow = 0;
    laterNow = 0;
    looksNow = 0;
  }

  /** Time of a class that is known, in ns. */
  double known(WaitClass wait) {
    return atOnce[wait.ordinal()] + later[wait.ordinal()];
  }

  /** Time of a class that a clock counted, in ns. */
  double counted(WaitClass wait) {
    return counted[wait.ordinal()];
  }

  /** Whole percent of the wanted looks at the sleeping thread that were taken; 100 for no look. */
  long coverage() {
    return wanted > taken ? (long) (100 * taken / wanted) : 100;
  }

  /** The estimated time of each class, in ns. */
  double[] weights() {
    double once = DoubleStream.of(atOnce).sum();
    double late = DoubleStream.of(later).sum();
    double unknown = lost + laterNow;
    double[] weights = new double[CLASSES];
    for (int i = 0; i < CLASSES; i++) {
      weights[i] = counted[i] + later[i]
          + firsts * (once > 0 ? atOnce[i] / once : late > 0 ? later[i] / late : 0)
          + unknown * (late > 0 ? later[i] / late : once > 0 ? atOnce[i] / once : 0);
    }
    return weights;
  }

  /**
   * Parts of an exact total by weights, one per class; they sum to it. Without any weight, all of it
   * is OTHER.
   */
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
