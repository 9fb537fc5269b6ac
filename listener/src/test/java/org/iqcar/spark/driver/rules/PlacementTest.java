package org.iqcar.spark.driver.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.scheduler.FIFOSchedulableBuilder;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.driver.queries.RunningQueries;
import org.iqcar.spark.safety.Failures;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction1;

class PlacementTest {
  private static final PoolRules RULES = PoolRules.parse("r.json",
      ("{\"schema_version\":\"1\",\"pools\":[{\"name\":\"gold\"}],"
          + "\"assignments\":[{\"pool\":\"gold\",\"description\":\"q1\"}]}")
          .getBytes(StandardCharsets.UTF_8), Collections.singleton("default"));

  private final AtomicInteger offers = new AtomicInteger();
  private final HeldJobs held = new HeldJobs(offers::incrementAndGet, () -> 0);
  private final RuleRoot root = new RuleRoot(() -> 4, held);
  private final Placement placement = new Placement(RULES, held, job -> true);
  private final PoolChooser chooser = new PoolChooser(
      new FIFOSchedulableBuilder(root) {
        @Override
        public void addTaskSetManager(Schedulable taskSet, Properties properties) {
          String name = properties.getProperty(RunningQueries.POOL, "default");
          ((Pool) root.getSchedulableByName(name)).addSchedulable(taskSet);
        }
      }, placement, new Pools(root));

  PlacementTest() {
    root.addSchedulable(new Pool("default", SchedulingMode.FIFO(), 0, 1));
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

  /**
   * Threads create task sets under the scheduler's lock, as Spark does, while others bring their
   * jobs' events early or late, time passes and rules change.
   */
  @ParameterizedTest
  @ValueSource(ints = {16, 64})
  void whateverTheOrderEachTaskSetComesIntoItsPoolAndNothingIsLeft(int threads) throws Exception {
    long failures = Failures.count();
    Object scheduler = new Object();
    placement.onLateAnswer(job -> {
      synchronized (scheduler) {
        chooser.place(job);
      }
    });
    CyclicBarrier start = new CyclicBarrier(threads);
    AtomicReference<Throwable> failure = new AtomicReference<>();
    Map<Integer, TaskSetManager> made = new ConcurrentHashMap<>();
    List<Thread> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int half = i / 2;
      boolean submits = i % 2 == 0;
      all.add(new Thread(() -> {
        try {
          start.await();
          for (int one = 0; one < 40; one++) {
            int job = half * 40 + one;
            if (!submits) {
              placement.onJobStart(start(job, job % 3 == 0 ? "q2" : "q1"));
              continue;
            }
            synchronized (scheduler) {
              made.put(job, submit(job));
              offered();
            }
            if (one % 8 == 7) {
              held.expire(job);
              synchronized (scheduler) {
                chooser.become(RULES);
              }
            }
          }
        } catch (Throwable any) {
          failure.set(any);
        }
      }));
    }
    all.forEach(Thread::start);
    for (Thread thread : all) {
      thread.join();
    }
    assertNull(failure.get(), () -> String.valueOf(failure.get()));
    assertEquals(threads * 20, made.size());
    made.forEach((job, taskSet) ->
        assertEquals(job % 3 == 0 ? "default" : "gold", taskSet.parent().name(), "job " + job));
    List<Integer> jobs = new ArrayList<>(made.keySet());
    Collections.sort(jobs);
    List<Integer> offered = offered();
    Collections.sort(offered);
    assertEquals(jobs, offered);
    jobs.parallelStream().forEach(
        job -> placement.onJobEnd(new SparkListenerJobEnd(job, 0, JobSucceeded$.MODULE$)));
    jobs.forEach(job -> assertNull(placement.poolNow(job)));
    held.inTime();
    assertFalse(held.any());
    assertEquals(failures, Failures.count(), Failures.byPlace().toString());
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
