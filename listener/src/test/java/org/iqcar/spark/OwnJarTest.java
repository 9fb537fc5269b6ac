package org.iqcar.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class OwnJarTest {
  @Test
  void whereAnEarlierContextServedTheJarIsLeftOut() {
    String stale = "spark://10.0.0.1:1111/jars/iqcar.jar";
    String served = "spark://10.0.0.1:2222/jars/iqcar.jar";
    String others = "spark://10.0.0.1:1111/jars/other.jar,s3a://b/iqcar.jar";
    assertEquals(others,
        OwnJar.withoutStale(stale + "," + others, "iqcar.jar", "10.0.0.1:2222"));
    assertEquals(served + "," + others,
        OwnJar.withoutStale(served + "," + others, "iqcar.jar", "10.0.0.1:2222"));
    assertEquals("", OwnJar.withoutStale("", "iqcar.jar", "10.0.0.1:2222"));
  }
}
