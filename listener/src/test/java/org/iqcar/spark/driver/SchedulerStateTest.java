package org.iqcar.spark.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Collection;
import java.util.Collections;
import java.util.Random;
import java.util.TreeSet;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How many executors and slots there are, where Spark drops events about executors. */
class SchedulerStateTest {
  private static final int CORES = 4;

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void isRightAgainOnceSparkIsAskedWhateverWasDropped(long seed) {
    Random chance = new Random(seed);
    SchedulerState slots = new SchedulerState();
    slots.add("first", CORES);
    Collection<String> now = new TreeSet<>(Collections.singleton("first"));
    for (int executor = 0; executor < 10_000; executor++) {
      String name = String.valueOf(executor);
      now.add(name);
      if (chance.nextBoolean()) {
        slots.add(name, CORES);
      }
      String gone = String.valueOf(executor - chance.nextInt(20));
      if (now.remove(gone) && chance.nextBoolean()) {
        slots.remove(gone);
      }
      if (executor % 100 == 0) {
        slots.become(now);
        assertEquals(now.size(), slots.executors());
        assertEquals(now.size() * CORES, slots.slots(1));
      }
    }
    slots.remove("never there");
    slots.become(Collections.emptyList());
    assertEquals(0, slots.slots(1));
  }
}
