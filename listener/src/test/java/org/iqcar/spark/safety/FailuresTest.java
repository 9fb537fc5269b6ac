package org.iqcar.spark.safety;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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

  @ParameterizedTest
  @ValueSource(classes = {OutOfMemoryError.class, ThreadDeath.class})
  void whatTheJvmDoesNotSurviveIsCountedAndGoesOn(Class<? extends Error> type) throws Exception {
    Error fatal = type.getDeclaredConstructor().newInstance();
    long before = Failures.count();
    assertSame(fatal, assertThrows(type, () -> Failures.note("a place", fatal)));
    assertEquals(before + 1, Failures.count());
  }

  @Test
  void anotherSparksClassesAndDeepRecursionAreNotFatal() {
    Failures.note("a place", new NoSuchMethodError());
    Failures.note("a place", new StackOverflowError());
  }

  @Test
  void whoWasInterruptedStaysInterrupted() {
    Failures.note("a place", new InterruptedException());
    assertTrue(Thread.interrupted());
  }
}
