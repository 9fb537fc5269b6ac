package org.iqcar.spark.events;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ProfileTest {
  private static final long MS = 1_000_000L;
  private static final int SERIES = 2 + WaitClass.ALL.length;
  private static final int IO_READ = Profile.series(WaitClass.IO_READ);

  private static long sum(String runs) {
    long sum = 0;
    for (String run : runs.split(",")) {
      String[] parts = run.split("\\*");
      sum += Long.parseLong(parts[0]) * (parts.length > 1 ? Long.parseLong(parts[1]) : 1);
    }
    return sum;
  }

  private static long[] totals(long cpu, long runQueue, long read) {
    long[] totals = new long[SERIES];
    totals[Profile.CPU] = cpu;
    totals[Profile.RUN_QUEUE] = runQueue;
    totals[IO_READ] = read;
    return totals;
  }

  @Test
  void amountsLandInTheirIntervals() {
    Profile profile = new Profile(100 * MS, 10);
    profile.add(Profile.CPU, 0, 200 * MS, 200 * MS);
    profile.add(IO_READ, 250 * MS, 350 * MS, 100 * MS);
    assertEquals("{\"bucket_ms\":100,\"buckets\":4,\"cpu\":\"100*2\",\"io_read\":\"0*2,50*2\"}",
        profile.encode(350 * MS, totals(200 * MS, 0, 100 * MS), 1500));
  }

  @Test
  void aTaskThatOutgrowsTheIntervalsDoublesTheirWidth() {
    Profile profile = new Profile(100 * MS, 3);
    profile.add(Profile.CPU, 0, 300 * MS, 300 * MS);
    profile.add(IO_READ, 300 * MS, 500 * MS, 200 * MS);
    assertEquals("{\"bucket_ms\":200,\"buckets\":3,\"cpu\":\"200,100\",\"io_read\":\"0,100*2\"}",
        profile.encode(500 * MS, totals(300 * MS, 0, 200 * MS), 1500));
  }

  @Test
  void aShortTaskHasNoProfile() {
    assertNull(new Profile(250 * MS, 10).encode(499 * MS, totals(499 * MS, 0, 0), 1500));
  }

  @Test
  void aSeriesThatNoSampleSawIsSpreadEvenly() {
    assertEquals("{\"bucket_ms\":100,\"buckets\":3,\"run_queue\":\"40*2,20\"}",
        new Profile(100 * MS, 10).encode(250 * MS, totals(0, 100 * MS, 0), 1500));
  }

  @Test
  void heldMemoryIsWrittenAsTheMeanOfEachInterval() {
    Profile profile = new Profile(100 * MS, 10);
    profile.add(Profile.HELD, 0, 100 * MS, 100.0 * MS * 8192);
    profile.add(Profile.HELD, 100 * MS, 150 * MS, 50.0 * MS * 8192);
    profile.add(Profile.HELD, 200 * MS, 250 * MS, 50.0 * MS * 4096);
    // The last interval is cut short: its mean is over its own length.
    assertEquals("{\"bucket_ms\":100,\"buckets\":3,\"held_kib\":\"8,4*2\"}",
        profile.encode(250 * MS, totals(0, 0, 0), 1500));
  }

  @Test
  void everySeriesSumsToItsTotalAndTheProfileStaysSmall() throws Exception {
    Random random = new Random(7);
    for (int round = 0; round < 200; round++) {
      int buckets = 2 + random.nextInt(150);
      Profile profile = new Profile((1 + random.nextInt(300)) * MS, buckets);
      long now = 0;
      for (int i = random.nextInt(2000); i >= 0; i--) {
        long step = 1 + (long) (random.nextDouble() * 400 * MS);
        profile.add(random.nextInt(SERIES), now, now + step, step * random.nextDouble());
        now += step;
      }
      long[] totals = new long[SERIES];
      for (int s = 0; s < SERIES; s++) {
        totals[s] = (long) (random.nextDouble() * now);
      }
      String json = profile.encode(now, totals, 1500);
      if (json != null) {
        assertTrue(json.length() <= 1500, json);
        JsonNode node = new ObjectMapper().readTree(json);
        assertTrue(node.get("buckets").asInt() <= buckets);
        assertTrue(node.get("buckets").asLong() * node.get("bucket_ms").asLong() * MS >= now);
        for (WaitClass wait : WaitClass.ALL) {
          long total = totals[Profile.series(wait)] / MS;
          JsonNode runs = node.get(wait.label);
          assertEquals(total, runs == null ? 0 : sum(runs.asText()));
        }
        assertEquals(totals[Profile.CPU] / MS, sum(node.get("cpu").asText()));
      }
    }
  }

  @Test
  void theLongestAllowedTimesStayWithinTheRangeOfNumbers() {
    Profile profile = new Profile(86_400_000_000_000L, 10_000);
    profile.add(Profile.CPU, 0, 5_000_000, 5_000_000);
    assertNull(profile.encode(10_000_000, new long[100], 1_500));
  }
}
