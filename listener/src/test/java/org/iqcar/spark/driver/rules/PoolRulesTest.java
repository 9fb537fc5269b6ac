package org.iqcar.spark.driver.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.iqcar.spark.driver.queries.RunningQueries;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PoolRulesTest {
  @Test
  void aFileSystemThatDoesNotAnswerHoldsNobodyUp() {
    CountDownLatch never = new CountDownLatch(1);
    IOException refused = assertThrows(IOException.class, () -> RuleFile.within(1, () -> {
      never.await();
      return null;
    }));
    assertEquals("no answer within 1 s", refused.getMessage());
  }

  private static final Set<String> OTHERS = new TreeSet<>(Arrays.asList("default", "old"));
  private static final String GOOD = "{'schema_version':'1','iqcar_version':'0.1.0','rules':[{}],"
      + "'pools':[{'name':'gold','weight':3,'min_share':2,'mode':'FAIR'},{'name':'iron'}],"
      + "'assignments':[{'pool':'gold','rule_id':'A-1','fingerprint':'plan:1','job_group':'etl'},"
      + "{'pool':'old','fingerprint':'plan:1','note':7},{'pool':'iron','description':'q1'}]}";

  private static PoolRules parse(String json) {
    return PoolRules.parse(
        "r.json", json.replace('\'', '"').getBytes(StandardCharsets.UTF_8), OTHERS);
  }

  private static RunningQueries.Query query(String fingerprint, String description) {
    return new RunningQueries.Query(fingerprint, description);
  }

  @Test
  void poolsAreReadWithTheirDefaults() {
    PoolRules rules = parse(GOOD);
    PoolRules.PoolSpec gold = rules.pools.get("gold");
    assertEquals("3 2 FAIR", gold.weight + " " + gold.minShare + " " + gold.mode);
    PoolRules.PoolSpec iron = rules.pools.get("iron");
    assertEquals("1 0 FIFO", iron.weight + " " + iron.minShare + " " + iron.mode);
    assertFalse(rules.isEmpty());
    assertTrue(parse("{'schema_version':'1','pools':[]}").isEmpty());
  }

  private static String pools(int count) {
    return IntStream.range(0, count).mapToObj(i -> "{'name':'" + i + "'}")
        .collect(Collectors.joining(",", "{'schema_version':'1','pools':[", "]}"));
  }

  @Test
  void moreThanAThousandPoolsAreRefused() {
    assertEquals(1_000, parse(pools(1_000)).pools.size());
    RulesRefused refused = assertThrows(RulesRefused.class, () -> parse(pools(1_001)));
    assertEquals("r.json: has 1001 pools, more than 1000; put queries together in pools",
        refused.reason());
  }

  @Test
  void theFirstAssignmentOfWhichEverythingMatchesWins() {
    PoolRules rules = parse(GOOD);
    assertEquals("gold", rules.poolOf(query("plan:1", "q1"), "etl"));
    assertEquals("old", rules.poolOf(query("plan:1", "q1"), ""));
    assertEquals("iron", rules.poolOf(query("plan:2", "q1"), "etl"));
    assertNull(rules.poolOf(query("plan:2", "q2"), "etl"));
    assertNull(rules.poolOf(query("", ""), ""));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
    "{                                                     | r.json in line 1, column 2: not JSON",
    "{'schema_version':'1','pools':[]} 7                   | not JSON",
    "[]                                                    | r.json: not a JSON object",
    "{'schema_version':'1','rules':[]}                     | has no \"pools\"; compile it first",
    "{'schema_version':'2','pools':[]}                     | schema_version is \"2\"",
    "{'pools':[]}                                          | schema_version is",
    "{'schema_version':'1','pools':{}}                     | pools is not a list",
    "{'schema_version':'1','pools':[7]}                    | pools[0]: has no name",
    "{'schema_version':'1','pools':[{'name':7}]}           | pools[0]: name is 7, not text",
    "{'schema_version':'1','pools':[{'name':' '}]}         | pools[0]: name is empty",
    "{'schema_version':'1','pools':[{'name':'a'},{'name':'a'}]} | pools[1]: a second pool",
    "{'schema_version':'1','pools':[{'name':'a','weight':0}]}   | weight is 0, not a whole number",
    "{'schema_version':'1','pools':[{'name':'a','weight':1.5}]} | weight is 1.5",
    "{'schema_version':'1','pools':[{'name':'a','weight':'3'}]} | weight is \"3\"",
    "{'schema_version':'1','pools':[{'name':'a','weight':1e99}]} | weight is",
    "{'schema_version':'1','pools':[{'name':'a','min_share':-1}]} | min_share is -1",
    "{'schema_version':'1','pools':[{'name':'a','mode':'NONE'}]} | mode is \"NONE\"",
    "{'schema_version':'1','pools':[],'assignments':[{'pool':'x','fingerprint':'f'}]}"
        + "| assignments[0]: there is no pool \"x\"",
    "{'schema_version':'1','pools':[],'assignments':[{'pool':'old'}]}"
        + "| assignments[0]: names no fingerprint, description or job_group",
    "{'schema_version':'1','pools':[],'assignments':[{'pool':'old','fingerprint':7}]}"
        + "| assignments[0]: fingerprint is 7, not text",
    "{'schema_version':'1','pools':[],'assignments':['x']} | assignments[0]: has no pool",
  })
  void whatIsWrongIsSaidInOneLineWithItsPlace(String json, String said) {
    String message = assertThrows(RulesRefused.class, () -> parse(json)).getMessage();
    assertTrue(message.startsWith("iqcar: no rules are applied: r.json"), message);
    assertTrue(message.contains(said), message);
    assertFalse(message.contains("\n"), message);
  }

  /** The file is what the analyzer wrote: AGG, DYNP and ADVICE rules, and their pools. */
  @Test
  void adviceIsSkippedAndTheOtherRulesApply() throws Exception {
    byte[] file = Files.readAllBytes(
        Paths.get(PoolRulesTest.class.getResource("/rules-with-advice.json").toURI()));
    assertTrue(new String(file, StandardCharsets.UTF_8).contains("\"ADVICE\""));
    PoolRules rules = PoolRules.parse("r.json", file, OTHERS);
    assertEquals(new TreeSet<>(Arrays.asList("default", "iqcar-etl", "iqcar-report")),
        new TreeSet<>(rules.pools.keySet()));
    assertEquals("iqcar-etl", rules.poolOf(query("name:etl", ""), ""));
    assertEquals(2, rules.assignments.size());
  }

  @Test
  void aFileOfAdviceAloneIsAFileWithoutRules() {
    assertTrue(parse("{'schema_version':'1','pools':[],'assignments':[],"
        + "'rules':[{'id':'ADVICE-1','rule-type':'ADVICE'}]}").isEmpty());
  }

  @Test
  void adviceThatClaimsAPoolIsRefused() {
    String json = "{'schema_version':'1','rules':[{'id':'A-1','rule-type':'ADVICE'}],"
        + "'pools':[],'assignments':[{'pool':'old','rule_id':'A-1','fingerprint':'f'}]}";
    String message = assertThrows(RulesRefused.class, () -> parse(json)).getMessage();
    assertTrue(message.contains("assignments[0]: A-1 is advice to people and makes no pool"),
        message);
  }

  @Test
  void foreignTextStaysOnOneLineOfBoundedLength() {
    String name = String.join("", Collections.nCopies(1000, "\u001b[2J\n"));
    String json = "{\"schema_version\":\"1\",\"pools\":[{\"name\":\"a\",\"mode\":\""
        + name.replace("\u001b", "\\u001b").replace("\n", "\\n") + "\"}]}";
    String message = assertThrows(RulesRefused.class, () -> parse(json)).getMessage();
    assertTrue(message.length() < 500, message);
    assertFalse(message.chars().anyMatch(Character::isISOControl));
  }

  @Test
  void anyBytesAreReadOrRefused() {
    Random random = new Random(5);
    byte[] good = GOOD.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
    int refused = 0;
    for (int round = 0; round < 3000; round++) {
      byte[] bytes = good.clone();
      for (int i = random.nextInt(5); i >= 0; i--) {
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
      }
      try {
        PoolRules.parse("r.json", bytes, OTHERS);
      } catch (RulesRefused expected) {
        refused++;
      }
    }
    assertTrue(refused > 1000);
    byte[] deep = String.join("", Collections.nCopies(200_000, "[")).getBytes(
        StandardCharsets.UTF_8);
    assertThrows(RulesRefused.class, () -> PoolRules.parse("r.json", deep, OTHERS));
  }

  @ParameterizedTest
  @CsvSource({"'cap':3,10,3", "'cap_share':0.3,10,3", "'cap_share':0.3,2,1", "'cap_share':1,8,8",
      "'cap':2;'cap_share':0.5,8,2", "'cap':6;'cap_share':0.5,8,4"})
  void aCapIsAsManyTasksOrAShareOfTheSlotsAndNeverNone(String cap, int slots, int most) {
    PoolRules rules = parse("{'schema_version':'1','pools':[{'name':'p'," + cap.replace(';', ',')
        + "}],'assignments':[]}");
    PoolRules.PoolSpec pool = rules.pools.get("p");
    assertTrue(pool.isCapped());
    assertFalse(pool.strict);
    assertEquals(most, pool.most(slots));
  }

  @ParameterizedTest
  @CsvSource({"'cap':0", "'cap':1.5", "'cap_share':0", "'cap_share':1.1", "'cap_share':'all'",
      "'strict':1"})
  void aCapThatIsNoneIsRefused(String cap) {
    assertThrows(RulesRefused.class, () -> parse(
        "{'schema_version':'1','pools':[{'name':'p'," + cap + "}],'assignments':[]}"));
  }
}
