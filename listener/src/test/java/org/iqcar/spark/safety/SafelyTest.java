package org.iqcar.spark.safety;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SafelyTest {
  @AfterEach
  void forget() throws ReflectiveOperationException {
    FaultInjection.forgetFailures();
  }

  @Test
  void failuresAreCountedByPlaceAndPlacesBeyondABoundAreOne() {
    for (int i = 0; i < 300; i++) {
      Failures.note("place " + i / 2, new IllegalStateException());
    }
    assertEquals(300, Failures.count());
    assertEquals(2L, Failures.byPlace().get("place 7"));
    assertEquals(100L, Failures.byPlace().get("something"));
  }

  @ParameterizedTest
  @ValueSource(classes = {OutOfMemoryError.class, StackOverflowError.class, NoSuchMethodError.class,
      ThreadDeath.class, IllegalStateException.class})
  void whateverIsThrownIsCountedOnceAndGoesNoFurther(Class<? extends Throwable> type)
      throws Exception {
    Throwable failure = type.getDeclaredConstructor().newInstance();
    Safely.Work failing = () -> {
      throw SafelyTest.<RuntimeException>unchecked(failure);
    };
    long before = Failures.count();
    assertFalse(Safely.run("a place", failing));
    assertEquals(before + 1, Failures.count());
    AtomicReference<Throwable> uncaught = new AtomicReference<>();
    Thread.UncaughtExceptionHandler ofSpark = Thread.getDefaultUncaughtExceptionHandler();
    Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> uncaught.set(thrown));
    try {
      Thread own = Safely.thread("iqcar-one", () -> {
        throw SafelyTest.<RuntimeException>unchecked(failure);
      });
      own.start();
      own.join();
      assertTrue(own.isDaemon());
    } finally {
      Thread.setDefaultUncaughtExceptionHandler(ofSpark);
    }
    assertNull(uncaught.get());
    assertEquals(before + 2, Failures.count());
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> T unchecked(Throwable failure) throws T {
    throw (T) failure;
  }

  @Test
  void whoWasInterruptedStaysInterrupted() {
    Failures.note("a place", new InterruptedException());
    assertTrue(Thread.interrupted());
  }
}
