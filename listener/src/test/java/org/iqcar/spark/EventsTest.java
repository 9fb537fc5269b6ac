package org.iqcar.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Collections;
import org.iqcar.spark.rules.RuleChange;
import org.junit.jupiter.api.Test;

/** The plugin's events can be written and read by Spark and its History Server. */
class EventsTest {
  private static final String SAMPLE = "{\"v\":1,\"t\":5}";

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
  void aHistoryServerCanReadTheExecutorsWanted() throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    String json = mapper.writeValueAsString(new IqcarEventExecutors(5, 7));
    IqcarEventExecutors back = mapper.readValue(
        json.replaceFirst("\\{", "{\"later\":1,"), IqcarEventExecutors.class);
    assertEquals(7, back.getExecutors());
    assertEquals(5, back.getTimeMs());
  }

  @Test
  void aHistoryServerCanReadHowManyEventsWereDropped() throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    String json = mapper.writeValueAsString(
        new IqcarEventDropped(5, Collections.singletonMap("eventLog", 7L)));
    IqcarEventDropped back = mapper.readValue(
        json.replaceFirst("\\{", "{\"later\":1,"), IqcarEventDropped.class);
    assertEquals(json, mapper.writeValueAsString(back));
    assertEquals(7L, back.getQueues().get("eventLog"));
  }

  @Test
  void aHistoryServerCanReadWhenAQueryWasPlanned() throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    IqcarEventPhases event = new IqcarEventPhases(
        7, Collections.singletonList(new IqcarEventPhases.Phase("planning", 5, 9)), 3);
    String json = mapper.writeValueAsString(event);
    IqcarEventPhases back = mapper.readValue(
        json.replace("{", "{\"later\":1,"), IqcarEventPhases.class);
    assertEquals(json, mapper.writeValueAsString(back));
    assertEquals(9, back.getPhases().get(0).getEndMs());
    assertEquals(3, back.getCompileMs());
  }

  @Test
  void aHistoryServerCanReadWhichRulesAct() throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    RuleChange change = new RuleChange();
    change.setKind("pool");
    change.setAfter("FIFO weight 3 minShare 0");
    IqcarEventRules event = new IqcarEventRules();
    event.setOutcome("accepted");
    event.setChanges(Collections.singletonList(change));
    String json = mapper.writeValueAsString(event);
    IqcarEventRules back = mapper.readValue(
        json.replace("{", "{\"later\":1,"), IqcarEventRules.class);
    assertEquals(json, mapper.writeValueAsString(back));
  }

  @Test
  void theEventHoldsTheSamplesAsJson() throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    IqcarEventSamples event =
        new IqcarEventSamples(new String[] {"h", "3", "2", SAMPLE + "," + SAMPLE});
    JsonNode written = mapper.readTree(mapper.writeValueAsString(event));
    assertEquals(2, written.get("samples").size());
    assertEquals(5, written.get("samples").get(1).get("t").asInt());
    assertEquals(2, written.get("dropped").asInt());
    String newer = "{\"Event\":\"org.iqcar.spark.IqcarEventSamples\",\"host\":\"h\","
        + "\"executor\":\"3\",\"samples\":[{\"v\":9}],\"more\":[1]}";
    assertEquals("h", mapper.readValue(newer, IqcarEventSamples.class).getHost());
  }
}
