package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Random;
import org.iqcar.spark.events.Profile;
import org.junit.jupiter.api.Test;

class HeldBytesTest {
  private static final long MS = 1_000_000L;

  @Test
  void aReadingStandsForTheTimeBeforeItAndTheLastOneAlsoForTheRest() {
    HeldBytes held = new HeldBytes(null);
    held.read(10 * MS, 600);
    held.read(30 * MS, 0);
    held.read(40 * MS, 300);
    held.end(60 * MS);
    assertEquals(600, held.peak());
    assertEquals((600 * 10 + 0 * 20 + 300 * 10 + 300 * 20) / 60, held.mean(60 * MS));
  }

  @Test
  void withoutAReadingNothingIsKnown() {
    HeldBytes held = new HeldBytes(null);
    held.end(10 * MS);
    assertFalse(held.known());
  }

  @Test
  void aTaskThatHeldNothingIsKnownToHaveHeldNothing() {
    Profile profile = new Profile(10 * MS, 4);
    HeldBytes held = new HeldBytes(profile);
    held.read(20 * MS, 0);
    held.end(40 * MS);
    assertTrue(held.known());
    assertEquals(0, held.mean(40 * MS));
    assertFalse(profile.encode(40 * MS, new long[Profile.HELD], 1500).contains("held"));
  }

  @Test
  void theIntervalsAgreeWithTheMeanAndTheMeanNeverExceedsThePeak() throws Exception {
    Random random = new Random(11);
    for (int round = 0; round < 200; round++) {
      Profile profile = new Profile((1 + random.nextInt(300)) * MS, 2 + random.nextInt(150));
      HeldBytes held = new HeldBytes(profile);
      long now = 0;
      for (int i = random.nextInt(500); i >= 0; i--) {
        now += 1 + (long) (random.nextDouble() * 400 * MS);
        held.read(now, random.nextInt(3) == 0 ? 0 : (long) (random.nextDouble() * 8e9));
      }
      now += 1 + random.nextInt(1_000_000);
      held.end(now);
      assertTrue(held.mean(now) <= held.peak());
      String json = profile.encode(now, new long[Profile.HELD], 1500);
      if (json != null) {
        JsonNode node = new ObjectMapper().readTree(json);
        long width = node.get("bucket_ms").asLong() * MS;
        double byteNanos = 0;
        long start = 0;
        String series = node.path("held_kib").asText("");
        for (String run : series.isEmpty() ? new String[0] : series.split(",")) {
          String[] parts = run.split("\\*");
          for (int i = parts.length > 1 ? Integer.parseInt(parts[1]) : 1; i > 0; i--) {
            byteNanos += Double.parseDouble(parts[0]) * 1024 * (Math.min(now, start + width) - start);
            start += width;
          }
        }
        // Each interval is rounded to a KiB.
        assertEquals(held.mean(now), byteNanos / now, 1024);
      }
    }
  }
}
