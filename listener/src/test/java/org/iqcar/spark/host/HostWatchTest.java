package org.iqcar.spark.host;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** Notes for the process that samples the host. */
class HostWatchTest {
  @Test
  void aWorkerIsNamedOnceAndNoneAfterTheEnd() {
    HostWatch.begin("77");
    HostWatch.python(88);
    HostWatch.python(88);
    assertEquals("watch 77 jvm\nwatch 88 python\n", HostWatch.orders());
    HostWatch.end();
    HostWatch.python(99);
    assertEquals("", HostWatch.orders());
  }
}
