package org.iqcar.spark.host;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** Notes for the process that samples the host. */
class HostWatchTest {
  @Test
  void ofTasksOnlyThoseThatOutliveAPeriodAreWatched() {
    HostWatch.begin("77", "ex 1");
    HostWatch.start("9", 1);
    HostWatch.end("9", 1);
    HostWatch.start("9", 2);
    HostWatch.python(88);
    HostWatch.python(88);
    assertEquals("watch 77 ex_1 jvm\ntask 9 77 2\nwatch 88 ex_1 python\n",
        HostWatch.orders());
    HostWatch.end("9", 2);
    assertEquals("end 9\n", HostWatch.orders());
    HostWatch.end();
    HostWatch.start("9", 3);
    assertEquals("", HostWatch.orders());
  }
}
