package org.iqcar.spark.safety;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class FailuresTest {
  @Test
  void theFirstFailureOfEachPlaceIsToldAndLaterOnesNowAndThen() {
    assertEquals(1, Failures.next("one place", 0));
    assertEquals(0, Failures.next("one place", 1));
    assertEquals(1, Failures.next("another place", 2));
    assertEquals(0, Failures.next("one place", TimeUnit.MINUTES.toNanos(9)));
    assertEquals(4, Failures.next("one place", TimeUnit.MINUTES.toNanos(11)));
    assertEquals(0, Failures.next("one place", TimeUnit.MINUTES.toNanos(12)));
    // Places beyond a bound are one.
    for (int i = 0; i < 300; i++) {
      Failures.next("place " + i, 0);
    }
    assertEquals(0, Failures.next("yet another place", 0));
  }
}
