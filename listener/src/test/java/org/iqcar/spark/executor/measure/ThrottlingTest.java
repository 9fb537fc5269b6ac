package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ThrottlingTest {
  private static final long SECOND = 1_000_000_000L;

  @TempDir Path folder;

  private void write(String path, String text) throws IOException {
    Path file = folder.resolve(path);
    Files.createDirectories(file.getParent());
    Files.write(file, text.getBytes(StandardCharsets.US_ASCII));
  }

  @BeforeEach
  void aGroupWithFourProcessors() throws IOException {
    write("self/mountinfo", "1 2 0:3 / " + folder + " rw - cgroup2 cgroup2 rw\n");
    write("self/cgroup", "0::/\n");
    write("self/status", "Cpus_allowed:\tf\n");
    write("cpu.max", "50000 100000\n");
    write("cpu.stat", "nr_throttled 1\nthrottled_usec 6\n");
  }

  @ParameterizedTest
  @CsvSource({"0,6000", "0.5,6000", "2,3000", "3,2000", "40,1500"})
  void stopsAreDividedByTheProcessorsThatTasksWanted(double wanted, double each) {
    Throttling throttling = new Throttling(folder.toString());
    assertEquals(6_000, throttling.stoppedNanos());
    long now = System.nanoTime() + 1_000 * SECOND;
    throttling.divide(Collections.emptyList(), now);
    throttling.ended(10 * SECOND * wanted);
    throttling.divide(Collections.emptyList(), now + 1);
    throttling.divide(Collections.emptyList(), now + 10 * SECOND);
    assertEquals(each, throttling.each(6_000), 1e-9);
  }

  @Test
  void whatCouldNotBeReadOnceIsNotKnownAnyMore() throws IOException {
    Throttling throttling = new Throttling(folder.toString());
    assertTrue(throttling.isKnown());
    write("cpu.stat", "nr_throttled 1\n");
    assertEquals(0, throttling.stoppedNanos());
    write("cpu.stat", "throttled_usec 7\n");
    assertEquals(0, throttling.stoppedNanos());
    assertFalse(throttling.isKnown());
  }

  @Test
  void withoutTheKernelsFilesNothingIsKnown() {
    assertFalse(new Throttling(folder.resolve("absent").toString()).isKnown());
  }

  @Test
  void afterItsEndItIsNotKnown() {
    Throttling throttling = new Throttling(folder.toString());
    throttling.close();
    assertFalse(throttling.isKnown());
    assertEquals(0, throttling.stoppedNanos());
  }
}
