package org.iqcar.spark.safety;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class SparkInternalsTest {
  /** What Spark has. */
  public abstract static class Theirs {
    public abstract void wanted();

    public Number kept() {
      return 1;
    }
  }

  /** Stands in for all that Spark wants. */
  public static class Whole extends Theirs {
    @Override
    public void wanted() {}

    @Override
    public Number kept() {
      return 2;
    }

    void own() {}
  }

  /** Has what Spark once called. */
  public static class Former extends Whole {
    public void former() {}
  }

  /** Returns another type than Spark expects. */
  public static class Changed extends Theirs {
    @Override
    public void wanted() {}

    @Override
    public Integer kept() {
      return 3;
    }
  }

  /** Lacks what Spark wants. */
  public abstract static class Lacking extends Theirs {}

  @Test
  void aClassThatSparkCallsAsAWholeIsRight() throws Exception {
    SparkInternals.checkOverrides(Whole.class);
  }

  @Test
  void whatSparkDoesNotCallOrWantsBesidesIsNamed() {
    assertNamed(Former.class, "overrides nothing by public void %s.former()", Former.class);
    assertNamed(
        Changed.class, "overrides nothing by public java.lang.Integer %s.kept()", Changed.class);
    assertNamed(Lacking.class, "lacks public abstract void %s.wanted()", Theirs.class);
  }

  private static void assertNamed(Class<?> made, String what, Class<?> where) {
    NoSuchMethodException failure = assertThrows(
        NoSuchMethodException.class, () -> SparkInternals.checkOverrides(made));
    assertEquals(
        made.getName() + " " + String.format(what, where.getName()), failure.getMessage());
  }
}
