package org.iqcar.spark.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.scheduler.FIFOSchedulableBuilder;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.queries.RunningQueries;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction1;

class PlacementTest {
  private static final PoolRules RULES = PoolRules.parse("r.json",
      ("{\"schema_version\":\"1\",\"pools\":[{\"name\":\"gold\"}],"
          + "\"assignments\":[{\"pool\":\"gold\",\"description\":\"q1\"}]}")
          .getBytes(StandardCharsets.UTF_8), Collections.singleton("default"));

  private final AtomicInteger offers = new AtomicInteger();
  private final HeldJobs held = new HeldJobs(offers::incrementAndGet);
  private final RuleRoot root = new RuleRoot(() -> 4, held);
  private final Placement placement = new Placement(RULES, true, held);
  private final PoolChooser chooser = new PoolChooser(
      new FIFOSchedulableBuilder(root) {
        @Override
        public void addTaskSetManager(Schedulable taskSet, Properties properties) {
          String name = properties.getProperty(RunningQueries.POOL, "default");
          ((Pool) root.getSchedulableByName(name)).addSchedulable(taskSet);
        }
      }, placement, new Pools(root, true));

  PlacementTest() {
    chooser.become(RULES);
    placement.onLateAnswer(chooser::place);
  }

  @AfterEach
  void stop() {
    held.stop();
  }

  private static SparkListenerJobStart start(int job, String description) {
    Properties properties = new Properties();
    properties.setProperty("spark.job.description", description);
    return new SparkListenerJobStart(job, 0, new ArrayBuffer<StageInfo>(), properties);
  }

  private TaskSetManager submit(int job) throws ReflectiveOperationException {
    Properties properties = new Properties();
    TaskSetManager taskSet = TaskSets.of(job, properties);
    chooser.addTaskSetManager(taskSet, properties);
    return taskSet;
  }

  private List<Integer> offered() {
    List<List<Integer>> rounds = Arrays.asList(new ArrayList<>(), new ArrayList<>());
    ArrayBuffer<TaskSetManager> queue = root.getSortedTaskSetQueue();
    for (List<Integer> round : rounds) {
      queue.foreach(new AbstractFunction1<TaskSetManager, Object>() {
        @Override
        public Object apply(TaskSetManager each) {
          return round.add(each.priority());
        }
      });
    }
    return rounds.get(1);
  }

  @Test
  void aTaskSetWhoseJobIsKnownGoesIntoItsPool() throws Exception {
    placement.onJobStart(start(1, "q1"));
    assertEquals("gold", submit(1).parent().name());
    assertEquals(Collections.singletonList(1), offered());
  }

  @Test
  void aTaskSetThatComesBeforeItsJobsEventIsHeldAndMovedWhenItComes() throws Exception {
    // Whoever waits here is woken up with an exception.
    Thread.currentThread().interrupt();
    assertNull(placement.poolOf(1));
    assertTrue(Thread.interrupted());
    TaskSetManager early = submit(1);
    assertEquals("default", early.parent().name());
    assertEquals(Collections.emptyList(), offered());
    placement.onJobStart(start(1, "q1"));
    assertEquals("gold", early.parent().name());
    assertEquals("gold", early.taskSet().properties().getProperty(RunningQueries.POOL));
    assertEquals(Collections.singletonList(1), offered());
  }

  @Test
  void anAnswerThatDoesNotComeHoldsNobodyUp() throws Exception {
    TaskSetManager first = submit(1);
    held.expire(1);
    assertEquals(1, offers.get());
    submit(2);
    assertEquals(Arrays.asList(1, 2), offered());
    // It comes after all, too late to be waited for, and is good for moving.
    placement.onJobStart(start(1, "q1"));
    assertEquals("gold", first.parent().name());
  }

  @Test
  void whatIsKnownOfAJobEndsWithIt() {
    placement.onJobStart(start(1, "q1"));
    assertEquals("gold", placement.poolNow(1));
    placement.onJobEnd(new SparkListenerJobEnd(1, 0, JobSucceeded$.MODULE$));
    assertNull(placement.poolNow(1));
    placement.poolOf(2);
    assertTrue(held.any());
    placement.onJobEnd(new SparkListenerJobEnd(2, 0, JobSucceeded$.MODULE$));
    assertFalse(held.any());
  }
}
