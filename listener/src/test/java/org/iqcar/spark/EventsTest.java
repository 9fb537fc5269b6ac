package org.iqcar.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The plugin's events can be written and read by Spark and its History Server. */
class EventsTest {
  private static final String SAMPLE = "{\"v\":1,\"t\":5}";

  @Test
  void aHistoryServerCanReadTheEventAndIgnoresFieldsOfLaterVersions() throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    IqcarEventScheduler event = new IqcarEventScheduler();
    IqcarEventScheduler.PoolState pool = new IqcarEventScheduler.PoolState();
    pool.name = "gold";
    pool.weight = 3;
    pool.strict = true;
    event.pools.add(pool);
    event.slots = 4;
    String json = mapper.writeValueAsString(event);
    IqcarEventScheduler back = mapper.readValue(
        json.replaceFirst("\\{", "{\"later\":1,"), IqcarEventScheduler.class);
    assertEquals(event.describe(), back.describe());
  }

  static List<Object> others() {
    IqcarEventExecutors executors = new IqcarEventExecutors();
    executors.executors = 7;
    IqcarEventDropped dropped = new IqcarEventDropped();
    dropped.queues.put("eventLog", 7L);
    IqcarEventPhases phases = new IqcarEventPhases();
    phases.phases.add(new IqcarEventPhases.Phase("planning", 5, 9));
    phases.compileMs = 3;
    IqcarEventRules rules = new IqcarEventRules();
    rules.outcome = "accepted";
    rules.changes.add(new IqcarEventRules.Change());
    rules.changes.get(0).after = "FIFO weight 3 minShare 0";
    return Arrays.asList(executors, dropped, phases, rules);
  }

  @ParameterizedTest
  @MethodSource("others")
  void aHistoryServerReadsTheOtherEventsWhole(Object event) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    String json = mapper.writeValueAsString(event);
    Object back = mapper.readValue(
        json.replaceAll("([{,])(?=\"(version|name|kind)\")", "$1\"later\":1,"), event.getClass());
    assertEquals(json, mapper.writeValueAsString(back));
  }

  @Test
  void theEventHoldsTheSamplesAsJson() throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    IqcarEventSamples event = new IqcarEventSamples();
    event.dropped = 2;
    event.samples = "[" + SAMPLE + "," + SAMPLE + "]";
    JsonNode written = mapper.readTree(mapper.writeValueAsString(event));
    assertEquals(2, written.get("samples").size());
    assertEquals(5, written.get("samples").get(1).get("t").asInt());
    assertEquals(2, written.get("dropped").asInt());
    String newer = "{\"Event\":\"org.iqcar.spark.IqcarEventSamples\",\"host\":\"h\","
        + "\"executor\":\"3\",\"samples\":[{\"v\":9}],\"more\":[1]}";
    assertEquals("h", mapper.readValue(newer, IqcarEventSamples.class).host);
  }
}
