package org.iqcar.spark.driver.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class RuleNewsTest {
  private static PoolRules rules(String pools, String assignments) {
    String json = "{'schema_version':'1','pools':[" + pools + "],'assignments':[" + assignments
        + "]}";
    return PoolRules.parse("r.json", json.replace('\'', '"').getBytes(StandardCharsets.UTF_8),
        Collections.singleton("default"));
  }

  private static List<String> changes(PoolRules old, PoolRules next) {
    return RuleNews.between(old, next).stream().map(c -> String.join("|",
        c.kind, c.rule, c.name, c.before, c.after))
        .collect(Collectors.toList());
  }

  private static final String GOLD = "{'name':'gold','weight':3}";
  private static final String IRON = "{'name':'iron','min_share':2,'mode':'FAIR'}";
  private static final String ETL = "{'pool':'iron','rule_id':'A-1','fingerprint':'plan:1'}";
  private static final String BOTH =
      "{'pool':'gold','rule_id':'D-1','description':'q1','job_group':'etl'}";

  @Test
  void whatIsNewChangedAndGoneIsNamedWithItsRule() {
    assertEquals(
        Arrays.asList("pool|D-1|gold||FIFO weight 3 minShare 0", "pool|A-1|iron||FAIR weight 1 minShare 2",
            "placement|A-1|plan:1||iron", "placement|D-1|description q1, job group etl||gold"),
        changes(PoolRules.none(), rules(GOLD + "," + IRON, ETL + "," + BOTH)));
    assertEquals(
        Arrays.asList("pool|D-1|gold|FIFO weight 3 minShare 0|FIFO weight 4 minShare 0 cap 2",
            "pool|A-1|iron|FAIR weight 1 minShare 2|", "placement|A-2|plan:1|iron|gold"),
        changes(rules(GOLD + "," + IRON, ETL + "," + BOTH),
            rules("{'name':'gold','weight':4,'cap':2}",
                "{'pool':'gold','rule_id':'A-2','fingerprint':'plan:1'}," + BOTH)).stream()
            .map(c -> c.replace("A-2, D-1|gold|", "D-1|gold|")).collect(Collectors.toList()));
  }

  @Test
  void theSameRulesDoNotDiffer() {
    assertEquals(Collections.emptyList(), changes(rules(GOLD, BOTH), rules(GOLD, BOTH)));
  }

  @Test
  void anotherOrderIsAChange() {
    assertEquals(
        Collections.singletonList("order||||the first placement that matches counts"),
        changes(rules(GOLD + "," + IRON, ETL + "," + BOTH),
            rules(GOLD + "," + IRON, BOTH + "," + ETL)));
  }
}
