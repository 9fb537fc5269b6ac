package org.iqcar.spark.driver.queries;

import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.iqcar.spark.safety.LruMap;
import org.iqcar.spark.text.Secrets;

/**
 * Determines which query a job belongs to, from the events of the event log in their order, so that
 * the analyzer (analyzer/iqcar/model/queries/identify.py) finds the same in the log.
 *
 * <p>Used by one thread. The least recently used entries are dropped, so memory stays bounded.
 */
public final class RunningQueries {
  /** The local property that names a job's pool. */
  public static final String POOL = "spark.scheduler.pool";

  /** SQL executions kept for their jobs; an application runs some tens at once. */
  private static final int MOST_EXECUTIONS = 2_000;
  /** SQL executions kept after their end: threads of one may still start a broadcast's job. */
  private static final int MOST_ENDED = 20;
  /** Job groups, Connect operations and pools whose query is kept. */
  private static final int MOST_NAMES = 10_000;
  /** Characters of the texts in each map: those of 400 statements as long as any is kept. */
  private static final long MOST_CHARS = 4_000_000;

  /** What rules match: a query's fingerprint and description. */
  public static final class Query {
    public final String fingerprint;
    public final String description;

    public Query(String fingerprint, String description) {
      this.fingerprint = fingerprint;
      this.description = description;
    }

    private int chars() {
      return fingerprint.length() + description.length();
    }
  }

  private static final class Execution {
    long root;
    final String description;
    final String planHash;

    Execution(long root, String description, String planHash) {
      this.root = root;
      this.description = description;
      this.planHash = planHash;
    }

    int chars() {
      return description.length() + planHash.length();
    }
  }

  private final LruMap<Long, Execution> executions =
      new LruMap<>(MOST_EXECUTIONS, MOST_CHARS, Execution::chars);
  private final LruMap<Long, Execution> ended = new LruMap<>(MOST_ENDED);
  private final LruMap<String, Query> ofFirstJob =
      new LruMap<>(MOST_NAMES, MOST_CHARS, Query::chars);
  /** The last query of each pool, for broadcasts: Spark runs them in job groups of their own. */
  private final LruMap<String, Query> lastOfPool =
      new LruMap<>(MOST_NAMES, MOST_CHARS, Query::chars);

  /**
   * A SQL execution begins.
   *
   * @param root the execution that it is part of; −1 where Spark does not say
   * @param planHash the hash of its plan; empty without a plan
   */
  public void executionStarted(long id, long root, String description, String planHash) {
    Execution before = executions.get(id);
    executions.put(id, new Execution(
        root < 0 && before != null ? before.root : root, QueryName.clean(description), planHash));
  }

  /** A SQL execution ends. */
  public void executionEnded(long id) {
    Execution execution = executions.remove(id);
    if (execution != null) {
      ended.put(id, execution);
    }
  }

  private Execution known(long id) {
    Execution execution = executions.get(id);
    return execution == null ? ended.get(id) : execution;
  }

  /**
   * A job begins.
   *
   * @param properties its local properties; may be null
   * @param callSites computes the names of the stages that it will run
   * @return the query that it belongs to
   */
  public Query jobStarted(Properties properties, Callable<List<String>> callSites)
      throws Exception {
    Properties local = properties == null ? new Properties() : properties;
    long execution = number(local.getProperty("spark.sql.execution.id"));
    String rootText = local.getProperty("spark.sql.execution.root.id");
    if (rootText == null || rootText.isEmpty()) {
      rootText = local.getProperty("spark.databricks.execution.rootSqlExecutionId");
    }
    long root = number(rootText);
    String rawGroup = local.getProperty("spark.jobGroup.id");
    String group = Secrets.redact(rawGroup, Secrets.MAX_NAME);
    String description = QueryName.clean(local.getProperty("spark.job.description"));
    String tags = QueryName.connectTags(local.getProperty("spark.job.tags"));
    String pool = Secrets.redact(local.getProperty(POOL), Secrets.MAX_NAME);

    boolean broadcast = execution < 0 && !group.isEmpty()
        && description.equals("broadcast exchange (runId " + group + ")");
    if (broadcast && lastOfPool.containsKey(pool)) {
      return lastOfPool.get(pool);
    }
    Query query;
    String operation;
    if (execution >= 0) {
      query = ofExecution(execution, root, description, tags, callSites);
    } else {
      operation = QueryName.connectOperation(rawGroup, local.getProperty("spark.job.tags"));
      String key = !operation.isEmpty() ? "connect " + operation
          : !group.isEmpty() ? "job-group " + group : null;
      query = key == null ? null : ofFirstJob.get(key);
      if (query == null) {
        query = ofJob(operation.isEmpty() ? group : "", description.isEmpty() ? tags : description,
            group, !operation.isEmpty(), callSites);
        if (key != null) {
          ofFirstJob.put(key, query);
        }
      }
    }
    lastOfPool.put(pool, query);
    return query;
  }

  private Query ofExecution(
      long id, long root, String jobDescription, String tags, Callable<List<String>> callSites)
      throws Exception {
    Execution execution = known(id);
    if (execution == null) {
      execution = new Execution(-1, "", "");
      executions.put(id, execution);
    }
    if (execution.root < 0) {
      execution.root = root;
    }
    long rootId = execution.root < 0 ? id : execution.root;
    Execution named = known(rootId);
    if (named == null) {
      String key = "sql " + rootId;
      Query query = ofFirstJob.get(key);
      if (query == null) {
        query = ofJob("", jobDescription.isEmpty() ? tags : jobDescription, "", false, callSites);
        ofFirstJob.put(key, query);
      }
      return query;
    }
    String name = named.description;
    if (NameFamily.tellsApart(name) && (QueryName.isUsers(name) || named.planHash.isEmpty())) {
      return new Query(QueryName.fingerprint("name", name), name);
    }
    if (named.planHash.isEmpty()) {
      return new Query("", name);
    }
    if (name.isEmpty()) {  // Spark Connect keeps a user's description and tags from the execution
      name = jobDescription.isEmpty() || QueryName.isBroadcast(jobDescription)
          ? tags : jobDescription;
    }
    return new Query("plan:" + named.planHash, name);
  }

  private static Query ofJob(
      String namingGroup, String description, String group, boolean isConnect,
      Callable<List<String>> callSites) throws Exception {
    if (NameFamily.tellsApart(description)) {
      return new Query(QueryName.fingerprint("name", description), description);
    }
    if (NameFamily.tellsApart(namingGroup) && !QueryName.hasUuid(namingGroup)) {
      return new Query(QueryName.fingerprint("group", namingGroup), description);
    }
    return new Query(QueryName.ofCallSites(callSites.call(), group, isConnect), description);
  }

  private static long number(String text) {
    try {
      return text == null ? -1 : Long.parseLong(text.trim());
    } catch (NumberFormatException none) {
      return -1;
    }
  }
}
