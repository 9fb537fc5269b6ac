package org.iqcar.spark.driver.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.scheduler.FIFOSchedulableBuilder;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.driver.DriverListener;
import org.iqcar.spark.driver.queries.RunningQueries;
import org.iqcar.spark.safety.Failures;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction1;

/** What rules do where Spark drops events of their queue: jobs run, and what is known of them ends. */
class LostEventsTest {
  private static final PoolRules RULES = PoolRules.parse("r.json",
      ("{\"schema_version\":\"1\",\"pools\":[{\"name\":\"gold\",\"cap\":1}],"
          + "\"assignments\":[{\"pool\":\"gold\",\"description\":\"q1\"}]}")
          .getBytes(StandardCharsets.UTF_8), Collections.singleton("default"));
  private static final int AT_ONCE = 8;

  /** What the queue may drop. */
  private enum Kind { START, END }

  private final Set<Integer> running = Collections.synchronizedSet(new HashSet<>());
  private final CountDownLatch offered = new CountDownLatch(1);
  /** Spark's count of dropped events; it has none where its counter cannot be reached. */
  private long dropped;
  private final HeldJobs held = new HeldJobs(offered::countDown, () -> dropped);
  private final RuleRoot root = new RuleRoot(() -> 4, held);
  private final Placement placement = new Placement(RULES, held, running::contains);
  private final PoolChooser chooser = new PoolChooser(
      new FIFOSchedulableBuilder(root) {
        @Override
        public void addTaskSetManager(Schedulable taskSet, Properties properties) {
          String name = properties.getProperty(RunningQueries.POOL, "default");
          ((Pool) root.getSchedulableByName(name)).addSchedulable(taskSet);
        }
      }, placement, new Pools(root));
  /** Task sets of the jobs that run. */
  private final Map<Integer, List<TaskSetManager>> taskSets = new HashMap<>();

  LostEventsTest() {
    root.addSchedulable(new Pool("default", SchedulingMode.FIFO(), 0, 1));
    chooser.become(RULES);
    placement.onLateAnswer(chooser::place);
  }

  @AfterEach
  void stop() {
    held.stop();
  }

  private void start(int job, boolean lost) {
    running.add(job);
    if (lost) {
      dropped++;
      return;
    }
    Properties properties = new Properties();
    properties.setProperty("spark.job.description", "q" + job % 3);
    placement.onJobStart(
        new SparkListenerJobStart(job, 0, new ArrayBuffer<StageInfo>(), properties));
  }

  private TaskSetManager submit(int job) throws ReflectiveOperationException {
    Properties properties = new Properties();
    TaskSetManager taskSet = TaskSets.of(job, properties);
    chooser.addTaskSetManager(taskSet, properties);
    taskSets.computeIfAbsent(job, none -> new ArrayList<>()).add(taskSet);
    return taskSet;
  }

  private void end(int job, boolean lost) {
    for (TaskSetManager taskSet : taskSets.remove(job)) {
      taskSet.parent().removeSchedulable(taskSet);
    }
    running.remove(job);
    if (lost) {
      dropped++;
    } else {
      placement.onJobEnd(new SparkListenerJobEnd(job, 0, JobSucceeded$.MODULE$));
    }
  }

  private Set<Integer> offered() {
    Set<Integer> jobs = new TreeSet<>();
    ArrayBuffer<TaskSetManager> queue = root.getSortedTaskSetQueue();
    for (int walk = 0; walk < 2; walk++) {
      jobs.clear();
      queue.foreach(new AbstractFunction1<TaskSetManager, Object>() {
        @Override
        public Object apply(TaskSetManager each) {
          return jobs.add(each.priority());
        }
      });
    }
    return jobs;
  }

  /** Runs many jobs of one or two stages, some at once, and loses these events of every other. */
  private void runJobs(int count, Set<Kind> lost, Random chance) throws Exception {
    Deque<Integer> jobs = new ArrayDeque<>();
    for (int job = 0; job < count; job++) {
      boolean noStart = lost.contains(Kind.START) && chance.nextBoolean();
      start(job, noStart);
      jobs.add(job);
      for (int stages = 0; stages <= job % 2; stages++) {
        String pool = submit(job).parent().name();
        assertEquals(!noStart && job % 3 == 1 ? "gold" : "default", pool, "job " + job);
      }
      assertEquals(new TreeSet<>(jobs), offered(), "job " + job + " is not held");
      while (jobs.size() > chance.nextInt(AT_ONCE)) {
        end(jobs.poll(), lost.contains(Kind.END) && chance.nextBoolean());
      }
      assertTrue(placement.known() <= Placement.ASK_AT, placement.known() + " after job " + job);
    }
    while (!jobs.isEmpty()) {
      end(jobs.poll(), false);
    }
    for (Schedulable pool : root.schedulableQueue()) {
      assertTrue(pool.schedulableQueue().isEmpty());
    }
  }

  @ParameterizedTest
  @EnumSource(Kind.class)
  void withoutOneKindOfEventJobsRunAndWhatIsKnownOfThemEnds(Kind lost) throws Exception {
    long failures = Failures.count();
    runJobs(5_000, EnumSet.of(lost), new Random(1));
    assertEquals(failures, Failures.count(), Failures.byPlace().toString());
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5})
  void withoutAnyEventsSoDoThey(long seed) throws Exception {
    runJobs(5_000, EnumSet.allOf(Kind.class), new Random(seed));
  }

  @Test
  void jobsOfWhichNoEventComesAreForgottenAndThoseThatRunAreNot() throws Exception {
    start(0, false);
    for (int job = 1; job < 1_000; job++) {
      start(job, true);
      submit(job);
      end(job, true);
      assertTrue(placement.known() <= Placement.ASK_AT);
    }
    assertEquals("default", placement.poolNow(0));
    start(1_000, false);
    assertEquals("gold", submit(1_000).parent().name());
  }

  @Test
  void manyJobsAtOnceAreAllKept() throws Exception {
    for (int job = 0; job < 1_000; job++) {
      start(job, false);
      submit(job);
    }
    assertEquals(1_000, placement.known());
    for (int job = 0; job < 1_000; job++) {
      assertEquals(job % 3 == 1 ? "gold" : "default", placement.poolNow(job));
    }
  }

  /** Spark's counter is not reached here: only time tells that an answer will not come. */
  @Test
  void aJobIsHeldOnceAndForAShortTimeWhereNothingTellsThatItsStartIsLost() throws Exception {
    submit(0);
    held.release(0);
    assertEquals(Collections.singleton(0), offered()); // all classes are loaded now
    end(0, false);
    start(1, true);
    dropped = 0;
    submit(1);
    assertEquals(Collections.emptySet(), offered());
    assertTrue(offered.await(60, TimeUnit.SECONDS));
    assertEquals(Collections.singleton(1), offered());
    start(2, false);
    submit(2);
    submit(1);
    assertEquals(new TreeSet<>(Arrays.asList(1, 2)), offered());
    assertFalse(held.any(), "rounds cost what they cost without held jobs");
  }

  @Test
  void theEndOfAJobTellsNotThatAnswersComeInTime() throws Exception {
    submit(1);
    submit(2);
    held.expire(1);
    end(2, false);
    submit(3);
    assertEquals(new TreeSet<>(Arrays.asList(1, 3)), offered());
  }

  @Test
  void aJobThatIsNotHeldIsMovedAllTheSameWhenItsStartComes() throws Exception {
    dropped++;
    TaskSetManager early = submit(1);
    assertEquals(Collections.singleton(1), offered());
    start(1, false);
    assertEquals("gold", early.parent().name());
  }

  @Test
  void aSparkThatDoesNotTellWhichJobsRunForgetsThemByTheirNumber() throws Exception {
    Placement blind = new Placement(RULES, held, job -> {
      throw new NoSuchMethodError("DAGScheduler.jobIdToActiveJob");
    });
    for (int job = 0; job < 20_000; job++) {
      blind.onJobStart(
          new SparkListenerJobStart(job, 0, new ArrayBuffer<StageInfo>(), new Properties()));
      blind.poolOf(job);
    }
    assertEquals(10_000, blind.known());
  }

  /** Whoever listens to more events has to say here what becomes of it without them. */
  @Test
  void noOtherEventsMatter() {
    Set<String> heard = new TreeSet<>();
    for (Class<?> listener : Arrays.asList(Placement.class, DriverListener.class)) {
      Arrays.stream(listener.getDeclaredMethods()).map(method -> method.getName())
          .filter(name -> name.startsWith("on")).forEach(heard::add);
    }
    heard.remove("onLateAnswer");
    assertEquals(new TreeSet<>(Arrays.asList(
        // These two are dropped above.
        "onJobStart", "onJobEnd",
        // Executions are kept by number (RunningQueriesTest), executors corrected (SchedulerStateTest).
        "onOtherEvent", "onExecutorAdded", "onExecutorRemoved",
        // The next one does the same; threads end without it (RuleWatchTest).
        "onStageSubmitted", "onApplicationEnd")), heard);
  }
}
