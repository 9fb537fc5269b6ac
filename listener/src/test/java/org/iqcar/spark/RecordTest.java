package org.iqcar.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class RecordTest {
  @Test
  void partsSumToTheTotal() {
    Random random = new Random(3);
    for (int round = 0; round < 1000; round++) {
      double[] weights = new double[WaitClass.ALL.length];
      for (int i = random.nextInt(weights.length); i > 0; i--) {
        weights[random.nextInt(weights.length)] = random.nextDouble() * 1e12;
      }
      long total = random.nextLong() >>> (1 + random.nextInt(60));
      long[] parts = Shares.split(total, weights);
      assertEquals(total, Arrays.stream(parts).sum());
      for (int i = 0; i < parts.length; i++) {
        assertTrue(parts[i] >= 0);
        assertTrue(weights[i] > 0 || parts[i] == 0 || i == WaitClass.OTHER.ordinal());
      }
    }
  }

  @Test
  void timeWithoutAnySampleIsOther() {
    long[] parts = Shares.split(17, new double[WaitClass.ALL.length]);
    assertEquals(17, parts[WaitClass.OTHER.ordinal()]);
  }

  @Test
  void aRecordIsJsonWhateverAPoolIsCalled() throws Exception {
    String pool = "a \"b\" \\ \u0001 \u00e9 \n";
    JsonNode node = new ObjectMapper()
        .readTree(new TaskRecord().text("pool", pool).text("host", null).json());
    assertEquals(pool, node.get("pool").asText());
    assertFalse(node.has("host"));
    assertEquals(TaskRecord.VERSION, node.get("v").asInt());
  }

  @Test
  void aHistoryServerCanReadTheEventAndIgnoresFieldsOfLaterVersions() throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    IqcarEventScheduler event = new IqcarEventScheduler();
    IqcarEventScheduler.PoolState pool = new IqcarEventScheduler.PoolState();
    pool.setName("gold");
    pool.setWeight(3);
    event.setPools(Collections.singletonList(pool));
    event.setSlots(4);
    String json = mapper.writeValueAsString(event);
    IqcarEventScheduler back = mapper.readValue(
        json.replaceFirst("\\{", "{\"later\":1,"), IqcarEventScheduler.class);
    assertEquals(event.describe(), back.describe());
  }

  @Test
  void anUnreadableSettingFallsBackToItsDefault() {
    Map<String, String> values = new HashMap<>();
    values.put(Setting.SAMPLE_PERIOD.key(), "fast");
    values.put(Setting.PROFILE_BUCKETS.key(), "-3");
    values.put(Setting.ENABLED.key(), "maybe");
    values.put(Setting.PROFILE_BUCKET.key(), "1s");
    Settings settings = new Settings(values::get);
    assertEquals(20_000_000L, settings.samplePeriodNanos);
    assertEquals(120, settings.profileBuckets);
    assertTrue(settings.enabled);
    assertEquals(1_000_000_000L, settings.profileBucketNanos);
  }

  @Test
  void aSettingThatWouldFillOrStallTheJvmFallsBackToItsDefault() {
    Map<String, String> values = new HashMap<>();
    values.put(Setting.SAMPLE_PERIOD.key(), "1us");
    values.put(Setting.PROFILE_BUCKET.key(), "99999999min");
    values.put(Setting.PROFILE_BUCKETS.key(), "2147483647");
    values.put(Setting.PROFILE_BYTES.key(), "2147483647");
    values.put(Setting.HOST_PERIOD.key(), "99999999min");
    Settings settings = new Settings(values::get);
    assertEquals(20_000_000L, settings.samplePeriodNanos);
    assertEquals(250_000_000L, settings.profileBucketNanos);
    assertEquals(120, settings.profileBuckets);
    assertEquals(1_500, settings.profileBytes);
    assertEquals(1_000_000_000L, settings.hostPeriodNanos);
  }

  @Test
  void aProfileHasIntervalsOfWholeMilliseconds() {
    Settings settings = new Settings(
        key -> key.equals(Setting.PROFILE_BUCKET.key()) ? "1999us" : null);
    assertEquals(1_000_000L, settings.profileBucketNanos);
  }

  @Test
  void theLongestAllowedTimesStayWithinTheRangeOfNumbers() {
    Profile profile = new Profile(86_400_000_000_000L, 10_000);
    profile.add(Profile.CPU, 0, 5_000_000, 5_000_000);
    assertNull(profile.encode(10_000_000, new long[100], 1_500));
  }

  @Test
  void aPoolsNameIsCutAndHalfALetterIsNone() {
    String name = String.join("", Collections.nCopies(2_000, "x"));
    assertTrue(new TaskRecord().text("pool", name).json().length() < 1_100);
    assertEquals("{\"v\":1,\"pool\":\"a?b\\u0000\uD83D\uDE00\"}",
        new TaskRecord().text("pool", "a\uD83Db\0\uD83D\uDE00").json());
  }
}
