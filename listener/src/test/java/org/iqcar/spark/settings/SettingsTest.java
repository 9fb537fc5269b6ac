package org.iqcar.spark.settings;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** A value that cannot be used is replaced by its default. */
class SettingsTest {
  @Test
  void anUnreadableSettingFallsBackToItsDefault() {
    Map<String, String> values = new HashMap<>();
    values.put(Setting.SAMPLE_PERIOD.key, "fast");
    values.put(Setting.PROFILE_BUCKETS.key, "-3");
    values.put(Setting.ENABLED.key, "maybe");
    values.put(Setting.PROFILE_BUCKET.key, "1s");
    Settings settings = new Settings(values::get);
    assertEquals(20_000_000L, settings.samplePeriodNanos);
    assertEquals(120, settings.profileBuckets);
    assertTrue(settings.enabled);
    assertEquals(1_000_000_000L, settings.profileBucketNanos);
  }

  @Test
  void aSettingThatWouldFillOrStallTheJvmFallsBackToItsDefault() {
    Map<String, String> values = new HashMap<>();
    values.put(Setting.SAMPLE_PERIOD.key, "1us");
    values.put(Setting.PROFILE_BUCKET.key, "99999999min");
    values.put(Setting.PROFILE_BUCKETS.key, "2147483647");
    values.put(Setting.PROFILE_BYTES.key, "2147483647");
    values.put(Setting.HOST_PERIOD.key, "99999999min");
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
        key -> key.equals(Setting.PROFILE_BUCKET.key) ? "1999us" : null);
    assertEquals(1_000_000L, settings.profileBucketNanos);
  }

  @Test
  void theOverheadIsAShareInPercent() {
    for (String[] one : new String[][] {
        {"0.5%", "0.005"}, {"2", "0.02"}, {"100 %", "1"}, {"0", "0.01"}, {"0%", "0.01"},
        {"101%", "0.01"}, {"-1%", "0.01"}, {"NaN", "0.01"}, {"much", "0.01"}}) {
      Settings settings =
          new Settings(key -> key.equals(Setting.OVERHEAD.key) ? one[0] : null);
      assertEquals(Double.parseDouble(one[1]), settings.overhead, 1e-12, one[0]);
    }
  }
}
