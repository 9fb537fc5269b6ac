package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.iqcar.spark.events.WaitClass;
import org.junit.jupiter.api.Test;

/** The split of waits of which only some were read. */
class SampledWaitsTest {
  private static final WaitClass LONG = WaitClass.SHUFFLE_FETCH;
  private static final WaitClass SHORT = WaitClass.IO_READ;

  /**
   * Long waits among short ones, each look read with a chance; the estimated share of the long ones.
   */
  private static double longShare(double chance, int looks, Random random) {
    SampledWaits waits = new SampledWaits();
    for (int round = 0; round < 2_000; round++) {
      WaitClass wait = random.nextInt(11) == 0 ? LONG : SHORT;
      boolean known = false;
      for (int look = 0; look < (wait == LONG ? looks : 1); look++) {
        waits.asleep(20e6, look == 0, 1);
        known |= random.nextDouble() < chance;
        if (known) {
          waits.known(wait, 1);
          waits.taken(wait);
        }
      }
    }
    double[] weights = waits.weights();
    return weights[LONG.ordinal()] / (weights[LONG.ordinal()] + weights[SHORT.ordinal()]);
  }

  @Test
  void longWaitsThatAreMoreOftenReadAreNotFavoured() {
    for (double chance : new double[] {0.05, 0.2, 0.5}) {
      double sum = 0;
      for (int seed = 0; seed < 20; seed++) {
        sum += longShare(chance, 50, new Random(seed));
      }
      // Of eleven waits one takes 50 looks, ten take one.
      assertEquals(50.0 / 60, sum / 20, 0.02, "chance " + chance);
    }
  }

  @Test
  void withoutALeftOutStackTheSplitIsWhatWasSeen() {
    SampledWaits waits = new SampledWaits();
    waits.asleep(10, true, 1);
    waits.known(SHORT, 1);
    waits.taken(SHORT);
    waits.asleep(20, true, 1);
    waits.known(LONG, 0.25);
    waits.known(SHORT, 0.75);
    waits.taken(LONG);
    waits.counted(WaitClass.GC_SAFEPOINT, 7);
    assertEquals(100, waits.coverage());
    assertEquals(25, waits.weights()[SHORT.ordinal()], 1e-9);
    assertEquals(5, waits.weights()[LONG.ordinal()], 1e-9);
    assertEquals(7, waits.weights()[WaitClass.GC_SAFEPOINT.ordinal()], 1e-9);
  }

  @Test
  void whatIsToldWithoutAStackStandsForNoOtherWait() {
    SampledWaits waits = new SampledWaits();
    waits.asleep(10, true, 1);
    waits.known(SHORT, 1);
    waits.taken(SHORT);
    waits.asleep(20, true, 1); // left out: the budget was spent
    waits.told(WaitClass.PAGE_FAULT, 40);
    waits.told(WaitClass.PAGE_FAULT, 5);
    waits.asleep(30, true, 1);
    assertEquals(45, waits.weights()[WaitClass.PAGE_FAULT.ordinal()], 1e-9);
    assertEquals(60, waits.weights()[SHORT.ordinal()], 1e-9);
    assertEquals(33, waits.coverage());
  }

  @Test
  void aWaitThatIsReadLateIsKnownFromItsBegin() {
    SampledWaits waits = new SampledWaits();
    waits.asleep(10, true, 1);
    waits.asleep(10, false, 1);
    waits.asleep(10, false, 1);
    assertEquals(0, waits.coverage());
    waits.known(LONG, 1);
    waits.taken(LONG);
    assertEquals(100, waits.coverage());
    assertEquals(30, waits.weights()[LONG.ordinal()], 1e-9);
  }

  @Test
  void looksOfALongerPeriodStandForThoseItLeftOut() {
    SampledWaits waits = new SampledWaits();
    waits.asleep(80e6, true, 4);
    waits.known(LONG, 1);
    waits.taken(LONG);
    assertEquals(25, waits.coverage());
  }

  @Test
  void theWeightsSumToTheTimeAsleepOnceAnyStackWasRead() {
    Random random = new Random(11);
    for (int round = 0; round < 500; round++) {
      SampledWaits waits = new SampledWaits();
      double sum = 0;
      
      for (int look = 0; look < 50; look++) {
        double nanos = random.nextInt(1000);
        sum += nanos;
        waits.asleep(nanos, look == 0 || random.nextBoolean(), 1 + random.nextInt(3));
        WaitClass wait = WaitClass.ALL[random.nextInt(WaitClass.ALL.length)];
        int kind = look == 25 ? 0 : random.nextInt(4);
        if (kind == 0) {
          waits.known(wait, 1);
        }
        if (kind < 2) {
          waits.taken(kind == 0 ? wait : null);
        }
      }
      double weights = 0;
      for (WaitClass wait : WaitClass.ALL) {
        double one = waits.weights()[wait.ordinal()];
        assertTrue(one >= waits.known(wait) - 1e-6);
        weights += one;
      }
      assertEquals(sum, weights, 1e-6);
      assertTrue(waits.coverage() >= 0 && waits.coverage() <= 100);
    }
  }

  @Test
  void partsSumToTheTotal() {
    Random random = new Random(3);
    for (int round = 0; round < 1000; round++) {
      double[] weights = new double[WaitClass.ALL.length];
      for (int i = random.nextInt(weights.length); i > 0; i--) {
        weights[random.nextInt(weights.length)] = random.nextDouble() * 1e12;
      }
      long total = random.nextLong() >>> (1 + random.nextInt(60));
      long[] parts = SampledWaits.split(total, weights);
      assertEquals(total, Arrays.stream(parts).sum());
      for (int i = 0; i < parts.length; i++) {
        assertTrue(parts[i] >= 0);
        assertTrue(weights[i] > 0 || parts[i] == 0 || i == WaitClass.OTHER.ordinal());
      }
    }
  }

  @Test
  void timeWithoutAnySampleIsOther() {
    long[] parts = SampledWaits.split(17, new double[WaitClass.ALL.length]);
    assertEquals(17, parts[WaitClass.OTHER.ordinal()]);
  }
}
