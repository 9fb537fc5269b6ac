package org.iqcar.spark.driver.queries;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Callable;
import org.iqcar.spark.safety.SparkInternals;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which query a job belongs to: the same cases as the analyzer's in tests/model/queries. */
class RunningQueriesTest {
  private static final String ID = "0a1b2c3d-0000-4000-8000-0123456789ab";

  private final RunningQueries queries = new RunningQueries();

  private String job(String... properties) throws Exception {
    Properties local = new Properties();
    for (int i = 0; i < properties.length; i += 2) {
      local.setProperty(properties[i], properties[i + 1]);
    }
    Callable<List<String>> callSites = () -> Arrays.asList("map at b:2", "count at a:1");
    return queries.jobStarted(local, callSites).fingerprint;
  }

  private String sql(long id) throws Exception {
    return job("spark.sql.execution.id", String.valueOf(id));
  }

  @Test
  void aSqlQueryIsItsUsersNameElseItsPlan() throws Exception {
    queries.executionStarted(0, -1, "nightly 1", "h0");
    queries.executionStarted(1, -1, "count at A.scala:7", "h1");
    queries.executionStarted(2, -1, "SELECT 1", "h2");
    queries.executionStarted(3, -1, "count at A.scala:7", "");
    queries.executionStarted(4, -1, "", "");
    assertEquals("name:nightly 1", sql(0));
    assertEquals("plan:h1", sql(1));
    assertEquals("plan:h2", sql(2));
    assertEquals("name:count at A.scala:7", sql(3));
    assertEquals("", sql(4));
    assertEquals("", sql(99));
  }

  @Test
  void anEndedQueryIsForgottenOnceTwentyMoreHaveEnded() throws Exception {
    queries.executionStarted(1, -1, "", "lasts");
    queries.executionStarted(2, -1, "", "ended");
    queries.executionEnded(2);
    assertEquals("plan:ended", sql(2));
    for (long id = 100; id < 119; id++) {
      queries.executionStarted(id, -1, "", "h");
      queries.executionEnded(id);
    }
    assertEquals("plan:ended", sql(2));
    for (long id = 200; id < 220; id++) {
      queries.executionStarted(id, -1, "", "h");
      queries.executionEnded(id);
    }
    queries.executionEnded(9_999);
    assertEquals("", sql(2));
    assertEquals("plan:lasts", sql(1));
  }

  @Test
  void aPartOfAQueryIsItsRootWhoeverTellsSo() throws Exception {
    queries.executionStarted(0, -1, "", "root");
    queries.executionStarted(1, 0, "", "part");
    queries.executionStarted(2, -1, "", "part");
    queries.executionStarted(3, -1, "", "part");
    assertEquals("plan:root", sql(1));
    assertEquals("plan:root",
        job("spark.sql.execution.id", "2", "spark.sql.execution.root.id", "0"));
    assertEquals("plan:root", sql(2));
    assertEquals("plan:root", job("spark.sql.execution.id", "3",
        "spark.databricks.execution.rootSqlExecutionId", "0"));
  }

  @Test
  void otherJobsAreTheirGroupsFirstDescriptionElseTheGroupElseTheirCallSites() throws Exception {
    String sites = "call:count at a:1 / map at b:2";
    assertEquals(sites, job());
    assertEquals("name:load", job("spark.job.description", "load"));
    assertEquals("group:etl", job("spark.jobGroup.id", "etl"));
    assertEquals("group:etl", job("spark.jobGroup.id", "etl", "spark.job.description", "late"));
    assertEquals("name:a", job("spark.jobGroup.id", "g", "spark.job.description", "a"));
    assertEquals("name:a", job("spark.jobGroup.id", "g", "spark.job.description", "b"));
    assertEquals(sites, job("spark.jobGroup.id", ID));
    assertEquals(sites, queries.jobStarted(null,
        () -> Arrays.asList("map at b:2", "count at a:1")).fingerprint);
    assertEquals("call:", queries.jobStarted(null, Collections::emptyList).fingerprint);
  }

  @Test
  void aConnectOperationIsOneQuery() throws Exception {
    String tag = "SparkConnect_OperationTag_User_a_Session_" + ID + "_Operation_" + ID;
    assertEquals("name:first", job("spark.job.tags", tag, "spark.job.description", "first"));
    assertEquals("name:first", job("spark.job.tags", tag, "spark.job.description", "second"));
  }

  @Test
  void whatSparkConnectSaysOfARequestNamesNoQuery() throws Exception {
    String own = "Spark Connect - session_id: \"" + ID + "\"\nplan {\n  root {\n    plan_id: 3";
    String operation = "SparkConnect_OperationTag_User_a_Session_" + ID + "_Operation_" + ID;
    String tag = "SparkConnect_SessionTag_User_a_Session_" + ID + "_Tag_";
    queries.executionStarted(0, -1, own, "h0");
    queries.executionStarted(1, -1, own, "h1");
    assertEquals("plan:h0", sql(0));
    assertEquals("plan:h1", sql(1));
    Properties local = new Properties();
    local.setProperty("spark.sql.execution.id", "1");
    local.setProperty("spark.job.description", own);
    local.setProperty("spark.job.tags", tag + "nightly," + operation + "," + tag + "etl");
    assertEquals("etl, nightly", queries.jobStarted(local, null).description);
    local.setProperty("spark.job.description", "q39b");
    assertEquals("q39b", queries.jobStarted(local, null).description);
    local.setProperty("spark.job.description", "broadcast exchange (runId " + ID + ")");
    assertEquals("etl, nightly", queries.jobStarted(local, null).description);
    local.remove("spark.sql.execution.id");
    local.setProperty("spark.job.description", own);
    assertEquals("name:etl, nightly",
        queries.jobStarted(local, () -> Arrays.asList(own)).fingerprint);
    local.setProperty("spark.job.tags", operation.replace("Operation_0a1b", "Operation_1a1b"));
    assertEquals("", queries.jobStarted(local, () -> Arrays.asList(own)).fingerprint);
    local.setProperty("spark.job.tags", operation.replace("Operation_0a1b", "Operation_2a1b"));
    assertEquals("call:count at a:1",
        queries.jobStarted(local, () -> Arrays.asList(own, "count at a:1")).fingerprint);
  }

  @Test
  void aBroadcastOutsideOfSqlBelongsToTheLastQueryOfItsPool() throws Exception {
    String runId = "broadcast exchange (runId " + ID + ")";
    queries.executionStarted(0, -1, "", "h0");
    job("spark.sql.execution.id", "0", RunningQueries.POOL, "gold");
    job("spark.job.description", "other");
    assertEquals("plan:h0", job("spark.jobGroup.id", ID, "spark.job.description", runId,
        RunningQueries.POOL, "gold"));
    assertEquals("name:other",
        job("spark.jobGroup.id", ID, "spark.job.description", runId));
    assertEquals("name:broadcast exchange (runId *)", job("spark.jobGroup.id", ID,
        "spark.job.description", runId, RunningQueries.POOL, "iron"));
  }

  @Test
  void manyExecutionsAndGroupsAreForgottenNotKept() throws Exception {
    for (int i = 0; i < 50_000; i++) {
      queries.executionStarted(i, -1, "", "h");
      job("spark.jobGroup.id", "g" + i);
    }
    assertEquals("", sql(0));
    assertEquals("plan:h", sql(49_999));
  }

  @Test
  void longTextsAreForgottenNotKeptHoweverFewTheyAre() throws Exception {
    String text = String.join("", Collections.nCopies(9_000, "h"));
    for (int i = 0; i < 1_500; i++) {
      queries.executionStarted(i, -1, "", text + i);
      job("spark.sql.execution.id", String.valueOf(i), RunningQueries.POOL, "p" + i);
    }
    long executions = chars("executions", "planHash");
    long pools = chars("lastOfPool", "fingerprint");
    assertTrue(executions <= 4_000_000 && pools <= 4_000_000, executions + " " + pools);
    assertTrue(sql(1_499).endsWith("1499"));
    assertTrue(sql(0).isEmpty());
  }

  private long chars(String map, String text) throws Exception {
    long found = 0;
    for (Object one : ((Map<?, ?>) SparkInternals.get(queries, map)).values()) {
      found += ((String) SparkInternals.get(one, text)).length();
    }
    return found;
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void whateverEventsAreLostLaterQueriesAreKnownAndFewAreKept(long seed) throws Exception {
    Random chance = new Random(seed);
    int[] known = {0};
    for (long id = 0; id < 20_000; id++) {
      boolean began = chance.nextBoolean();
      if (began) {
        queries.executionStarted(id, chance.nextInt(4) == 0 ? id - 1 : -1, "", "h");
      }
      if (chance.nextBoolean()) {
        String found = sql(id);
        known[0] += found.equals("plan:h") ? 1 : 0;
        assertTrue(found.isEmpty() || began || found.equals("plan:h"), found);
      }
      if (chance.nextBoolean()) {
        queries.executionEnded(id);
      }
    }
    assertTrue(known[0] > 3_000, known[0] + " are known");
    queries.executionStarted(20_000, -1, "", "later");
    assertEquals("plan:later", sql(20_000));
    for (String kept : Arrays.asList("executions", "ended", "ofFirstJob", "lastOfPool")) {
      int size = ((Map<?, ?>) SparkInternals.get(queries, kept)).size();
      assertTrue(size <= (kept.equals("ended") ? 20 : 10_000), kept + " " + size);
    }
  }

  @Test
  void theShapeOfAPlanCountsAndItsConstantsDoNot() {
    PlanNode leaf = new PlanNode("Scan", "Scan t[a#1]", Collections.emptyList());
    PlanNode other = new PlanNode("Scan", "Scan t[a#7]", Collections.emptyList());
    PlanNode one = new PlanNode("WholeStageCodegen (1)", "Filter (a#1 = 5)",
        Collections.singletonList(leaf));
    PlanNode same = new PlanNode("WholeStageCodegen (4)", "Filter (a#7 = 6)",
        Collections.singletonList(other));
    PlanNode fork = new PlanNode("WholeStageCodegen (1)", "Filter (a#1 = 5)",
        Arrays.asList(leaf, leaf));
    assertEquals(PlanFingerprint.hash(one), PlanFingerprint.hash(same));
    assertNotEquals(PlanFingerprint.hash(one), PlanFingerprint.hash(fork));
  }
}
