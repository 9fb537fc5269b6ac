package org.iqcar.spark.driver.rules;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;
import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.SparkEnv;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.iqcar.spark.driver.queries.PlanFingerprint;
import org.iqcar.spark.driver.queries.PlanNode;
import org.iqcar.spark.driver.queries.RunningQueries;
import org.iqcar.spark.safety.LruMap;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;
import org.iqcar.spark.text.Secrets;

/**
 * Decides for each job which pool it goes into, by the rules of the moment.
 *
 * <p>It listens on a queue of its own and receives the events of the event log in the same order:
 * the SQL execution with its plan, then the job; the job's task sets are created after that. Where
 * a task set is created before the job's event has come it is held ({@link HeldJobs}), and moved to
 * its pool when the event comes. The thread that creates it never waits.
 */
final class Placement extends SparkListener {
  private static final String SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution";
  /** Jobs whose decision is kept until they end; so many never run at once. */
  private static final int MOST_JOBS = 10_000;
  /** So many jobs are known before it is asked which of them run: Spark drops ends of jobs. */
  static final int ASK_AT = 64;

  /** SQL executions whose plans are kept until they end; an application runs some tens at once. */
  private static final int MOST_PLANS = 200;
  /** The fingerprint of a query whose plan is hashed once a rule asks; its execution's id follows. */
  private static final String LATER = "plan:later ";

  private volatile PoolRules rules;
  /** Whether a rule asks for plans. Hashing one that nobody asks for would hold up others' jobs. */
  private volatile boolean plansMatter;
  /** The start of each SQL execution whose plan is not hashed yet, else the hash. */
  private final LruMap<Long, Object> plans = new LruMap<>(MOST_PLANS);
  private final RunningQueries queries = new RunningQueries();
  private final LruMap<Integer, Job> jobs = new LruMap<>(MOST_JOBS);
  private final HeldJobs held;
  private final IntPredicate runs;
  private int askAt = ASK_AT;
  private volatile IntConsumer place = job -> { };

  /** What rules are compared with, and the pool that a job has without any. */
  private static final class Job {
    private final RunningQueries.Query query;
    private final String group;
    private final String asked;

    private Job(RunningQueries.Query query, String group, String asked) {
      this.query = query;
      this.group = group;
      this.asked = asked;
    }
  }

  /**
   * @param held the jobs whose task sets came before their event
   * @param runs whether a job runs; asked by the scheduler's thread, on which jobs end
   */
  Placement(PoolRules rules, HeldJobs held, IntPredicate runs) {
    this.rules = rules;
    this.held = held;
    this.runs = runs;
    plansMatter = asksForPlans(rules);
    forgetEnded();
  }

  /** Sets what moves a job's task sets that came before its event, and offers them slots. */
  void onLateAnswer(IntConsumer move) {
    place = move;
  }

  /** The rules that act now. */
  PoolRules rules() {
    return rules;
  }

  private static boolean asksForPlans(PoolRules rules) {
    return rules.assignments.stream().anyMatch(one -> one.fingerprint.startsWith("plan:"));
  }

  /** Hashes what the next rules ask for; the caller does not hold the scheduler's lock. */
  void prepare(PoolRules next) {
    plansMatter = asksForPlans(next);
    List<Integer> all;
    synchronized (this) {
      all = new ArrayList<>(jobs.keySet());
    }
    all.forEach(this::recognise);
  }

  /** Recognises a known job by its plan, if rules ask for plans by now. */
  private void recognise(int id) {
    Job job;
    synchronized (this) {
      job = jobs.get(id);
    }
    Job found = recognised(job);
    if (found != job) {
      synchronized (this) {
        jobs.replace(id, job, found);
      }
    }
  }

  private Job recognised(Job job) {
    if (!plansMatter || job == null || job.query == null
        || !job.query.fingerprint.startsWith(LATER)) {
      return job;
    }
    Long execution = Long.valueOf(job.query.fingerprint.substring(LATER.length()));
    synchronized (plans) {
      Object plan = plans.get(execution);
      if (plan != null && !(plan instanceof String)) {
        Object event = plan;
        plan = Safely.get("reading a plan", "", () -> planHash(event));
        plans.put(execution, plan);
      }
      return plan == null ? job : new Job(new RunningQueries.Query(
          "plan:" + plan, job.query.description), job.group, job.asked);
    }
  }

  /** Replaces the rules; the caller holds the scheduler's lock, as {@link #poolOf}'s does. */
  void become(PoolRules next) {
    rules = next;
  }

  /** The pool that a job belongs into now, with or without a rule; null if the job is unknown. */
  synchronized String poolNow(int job) {
    Job found = jobs.get(job);
    String pool = poolByRule(found);
    return pool != null || found == null ? pool
        : found.asked == null ? PoolRules.DEFAULT_POOL : found.asked;
  }

  private String poolByRule(Job job) {
    return job == null || job.query == null ? null : rules.poolOf(job.query, job.group);
  }

  /**
   * The pool of a job, or null; called by the scheduler's thread when it creates a task set. A job
   * that is not known yet is held.
   */
  synchronized String poolOf(int job) {
    Job found = jobs.get(job);
    if (found != null) {
      held.inTime();
    } else if (!rules.assignments.isEmpty()) {
      held.hold(job);
    }
    if (known() >= askAt) {
      forgetEnded();
    }
    return poolByRule(found);
  }

  /** Number of jobs of which something is kept. */
  synchronized int known() {
    return jobs.size() + held.size();
  }

  /** Forgets jobs that have ended without an event; what this Spark lacks for that is said. */
  private void forgetEnded() {
    boolean known = Safely.run("forgetting jobs that have ended", () -> {
      runs.test(-1);
      jobs.keySet().removeIf(one -> !runs.test(one));
      held.keep(runs);
    });
    // Else they are forgotten when there are too many.
    askAt = known ? Math.max(ASK_AT, 2 * known()) : Integer.MAX_VALUE;
  }

  @Override
  public void onJobStart(SparkListenerJobStart event) {
    Properties properties = event.properties();
    String asked = properties == null ? null : properties.getProperty(RunningQueries.POOL);
    Job job = Safely.get("finding a job's rule", new Job(null, null, asked), () -> {
      RunningQueries.Query query =
          queries.jobStarted(properties, () -> callSites(event));
      String group = properties == null ? null : properties.getProperty("spark.jobGroup.id");
      return recognised(new Job(query, Secrets.redact(group, Secrets.MAX_NAME), asked));
    });
    boolean came;
    synchronized (this) {
      jobs.put(event.jobId(), job);
      came = held.release(event.jobId());
    }
    recognise(event.jobId()); // rules that ask may have come just now
    if (came) {
      Safely.run("moving a job to its pool", () -> place.accept(event.jobId()));
    }
  }

  @Override
  public synchronized void onJobEnd(SparkListenerJobEnd event) {
    jobs.remove(event.jobId());
    held.forget(event.jobId());
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    String kind = event.getClass().getName();
    boolean ended = kind.equals(SQL + "End");
    if (ended || kind.equals(SQL + "Start")) {
      Safely.run("reading a SQL execution", () -> read(event, ended));
    }
  }

  private void read(Object event, boolean ended) throws ReflectiveOperationException {
    Long execution = (Long) SparkInternals.call(event, "executionId");
    if (!ended) {
      queries.executionStarted(execution, root(event),
          (String) SparkInternals.call(event, "description"), hashOrLater(event, execution));
      return;
    }
    queries.executionEnded(execution);
    synchronized (plans) {
      plans.remove(execution);
    }
  }

  /** The root execution's id, or −1: Spark before 3.4 does not say. */
  private static long root(Object event) throws ReflectiveOperationException {
    try {
      scala.Option<?> root = (scala.Option<?>) SparkInternals.call(event, "rootExecutionId");
      return root.isDefined() ? (Long) root.get() : -1;
    } catch (NoSuchMethodException old) {
      return -1;
    }
  }

  /** The plan's hash, or what stands for it until a rule asks; empty without a plan. */
  private String hashOrLater(Object event, long execution) throws ReflectiveOperationException {
    if (plansMatter) {
      return planHash(event);
    }
    Object info = SparkInternals.call(event, "sparkPlanInfo");
    Object text = SparkInternals.call(event, "physicalPlanDescription");
    boolean planned = info != null && !"".equals(SparkInternals.call(info, "nodeName"));
    if (!planned && (text == null || "".equals(text))) {
      return "";
    }
    synchronized (plans) {
      plans.put(execution, event);
    }
    return LATER.substring("plan:".length()) + execution;
  }

  private static String planHash(Object event) throws ReflectiveOperationException {
    Object info = SparkInternals.call(event, "sparkPlanInfo");
    if (info != null) {
      PlanNode plan = PlanNode.fromSpark(info);
      if (!plan.name.isEmpty()) {
        return PlanFingerprint.hash(plan);
      }
    }
    String text = (String) SparkInternals.call(event, "physicalPlanDescription");
    return text == null || text.isEmpty() ? "" : PlanFingerprint.hashText(text);
  }

  /** Names of the stages that a job will run; those whose shuffle files exist are skipped. */
  private static List<String> callSites(SparkListenerJobStart event)
      throws ReflectiveOperationException {
    TreeMap<Integer, StageInfo> stages = new TreeMap<>();
    for (Object info : SparkInternals.sequence(event, "stageInfos")) {
      StageInfo stage = (StageInfo) info;
      stages.put(stage.stageId(), stage);
    }
    if (stages.isEmpty()) {
      return Collections.emptyList();
    }
    List<String> names = new ArrayList<>();
    Set<Integer> seen = new HashSet<>();
    Deque<Integer> next = new ArrayDeque<>();
    next.push(stages.lastKey());
    while (!next.isEmpty()) {
      StageInfo stage = stages.get(next.pop());
      if (seen.add(stage.stageId()) && !isDone(stage)) {
        names.add(stage.name());
        for (Object parent : SparkInternals.sequence(stage, "parentIds")) {
          if (stages.containsKey(parent)) {
            next.push((Integer) parent);
          }
        }
      }
    }
    return names;
  }

  private static boolean isDone(StageInfo stage) {
    scala.Option<Object> shuffle = stage.shuffleDepId();
    Object tracker = SparkEnv.get().mapOutputTracker();
    if (shuffle.isEmpty() || !(tracker instanceof MapOutputTrackerMaster)) {
      return false;
    }
    MapOutputTrackerMaster outputs = (MapOutputTrackerMaster) tracker;
    int id = (Integer) shuffle.get();
    return outputs.containsShuffle(id)
        && outputs.getNumAvailableOutputs(id) == stage.numTasks();
  }
}
