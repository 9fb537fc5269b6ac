package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;

/** What sampling costs stays below its share of the time, whatever the costs are. */
class BudgetTest {
  private static final long MS = 1_000_000L;

  @Test
  void theCostNeverExceedsTheShareOfTheTimeAndOneReading() {
    Random random = new Random(7);
    for (int one = 0; one < 200; one++) {
      double share = 0.001 + 0.1 * random.nextDouble();
      double most = share * Budget.MOST_DEBT_NANOS * random.nextDouble();
      Budget budget = new Budget(share, 20 * MS);
      double spent = 0;
      long time = 0;
      for (int round = 0; round < 3_000; round++) {
        long passed = budget.periodNanos() + random.nextInt(5_000_000);
        time += passed;
        budget.passed(passed);
        boolean lasting = random.nextBoolean();
        while (budget.allows(lasting)) {
          double cost = most * random.nextDouble();
          spent += cost;
          budget.spend(cost);
        }
        assertTrue(spent <= share * (time + Budget.SAVED_NANOS) + most);
      }
      assertTrue(spent >= 0.9 * share * time, "the share is used");
    }
  }

  @Test
  void looksThatCostTooMuchComeLessOften() {
    Budget budget = new Budget(0.01, 20 * MS);
    budget.looked(0.05 * MS);
    assertEquals(20 * MS, budget.periodNanos());
    assertEquals(1, budget.stands());
    for (int round = 0; round < 200; round++) {
      budget.looked(0.4 * MS);
    }
    assertEquals(80 * MS, budget.periodNanos(), MS);
    assertEquals(4, budget.stands(), 0.1);
    for (int round = 0; round < 200; round++) {
      budget.looked(0.01 * MS);
    }
    assertEquals(20 * MS, budget.periodNanos());
  }

  @Test
  void waitsThatLastHaveHalfOfWhatIsSavedForThemselves() {
    Budget budget = new Budget(0.01, 20 * MS);
    budget.spend(6 * MS);
    assertFalse(budget.allows(false));
    assertTrue(budget.allows(true));
    budget.passed(200 * MS);
    assertTrue(budget.allows(false));
  }

  @Test
  void aSuspendedMachineDoesNotEndTheReadingOfStacks() {
    Budget budget = new Budget(0.01, 20 * MS);
    budget.spend(3_600e9);
    assertFalse(budget.allows(true));
    budget.passed(Budget.MOST_DEBT_NANOS + MS);
    assertTrue(budget.allows(true));
  }
}
