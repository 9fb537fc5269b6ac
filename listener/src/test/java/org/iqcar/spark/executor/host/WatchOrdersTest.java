package org.iqcar.spark.executor.host;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** Notes for the process that samples the host. */
class WatchOrdersTest {
  @Test
  void aWorkerIsNamedOnceAndNoneAfterTheEnd() {
    WatchOrders.begin("77");
    WatchOrders.python(88);
    WatchOrders.python(88);
    assertEquals("watch 77 jvm\nwatch 88 python\n", WatchOrders.orders());
    WatchOrders.end();
    WatchOrders.python(99);
    assertEquals("", WatchOrders.orders());
  }
}
