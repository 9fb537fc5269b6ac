package org.iqcar.spark.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class OwnJarTest {
  @Test
  void whereAnEarlierContextServedTheJarIsLeftOut() {
    String others = "spark://10.0.0.1:1111/jars/other.jar,s3a://b/iqcar.jar";
    assertEquals(others, OwnJar.withoutServed(
        "spark://10.0.0.1:1111/jars/iqcar.jar," + others, "iqcar.jar"));
    assertEquals("", OwnJar.withoutServed("", "iqcar.jar"));
  }
}
