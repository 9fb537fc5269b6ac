package org.iqcar.spark.rules;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import org.iqcar.spark.text.Secrets;

/**
 * One difference between two sets of rules; a field of an event, read and written as JSON.
 *
 * <p>Fields of later versions are ignored.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class RuleChange {
  private static final String POOL = "pool";
  private static final String PLACEMENT = "placement";
  private static final String ORDER = "order";

  private String kind = "";
  private String rule = "";
  private String name = "";
  private String before = "";
  private String after = "";

  public RuleChange() {}

  private RuleChange(String kind, String rule, String name, String before, String after) {
    this.kind = kind;
    this.rule = Secrets.redact(rule, Secrets.MAX_NAME);
    this.name = Secrets.redact(name, Secrets.MAX_NAME);
    this.before = Secrets.redact(before, Secrets.MAX_NAME);
    this.after = Secrets.redact(after, Secrets.MAX_NAME);
  }

  /** What is different: pools, then queries that go into another pool, then the order of these. */
  static List<RuleChange> between(PoolRules old, PoolRules next) {
    List<RuleChange> found = new ArrayList<>();
    Set<String> pools = new LinkedHashSet<>(old.pools.keySet());
    pools.addAll(next.pools.keySet());
    for (String name : pools) {
      String before = text(old.pools.get(name));
      String after = text(next.pools.get(name));
      if (!before.equals(after)) {
        found.add(new RuleChange(POOL, rulesOf(after.isEmpty() ? old : next, name), name,
            before, after));
      }
    }
    Map<String, PoolRules.Assignment> placed = placements(old);
    Map<String, PoolRules.Assignment> places = placements(next);
    Set<String> queries = new LinkedHashSet<>(placed.keySet());
    queries.addAll(places.keySet());
    for (String query : queries) {
      PoolRules.Assignment was = placed.get(query);
      PoolRules.Assignment is = places.get(query);
      if (was == null || is == null || !was.pool.equals(is.pool)
          || !Objects.equals(was.rule, is.rule)) {
        found.add(new RuleChange(PLACEMENT, is == null ? was.rule : is.rule, query,
            was == null ? "" : was.pool, is == null ? "" : is.pool));
      }
    }
    if (found.isEmpty()
        && !new ArrayList<>(placed.keySet()).equals(new ArrayList<>(places.keySet()))) {
      found.add(new RuleChange(ORDER, "", "", "", "the first placement that matches counts"));
    }
    return found;
  }

  private static String text(PoolRules.PoolSpec pool) {
    return pool == null ? "" : pool.describe().substring(pool.name.length()).trim();
  }

  /** Ids of the rules that put queries into a pool. */
  private static String rulesOf(PoolRules rules, String pool) {
    Set<String> ids = new TreeSet<>();
    for (PoolRules.Assignment assignment : rules.assignments) {
      if (assignment.pool.equals(pool) && !assignment.rule.isEmpty()) {
        ids.add(assignment.rule);
      }
    }
    return String.join(", ", ids);
  }

  /** Assignments by what they match; of two that match the same the first counts. */
  private static Map<String, PoolRules.Assignment> placements(PoolRules rules) {
    Map<String, PoolRules.Assignment> found = new LinkedHashMap<>();
    for (PoolRules.Assignment assignment : rules.assignments) {
      List<String> parts = new ArrayList<>();
      add(parts, "", assignment.fingerprint);
      add(parts, "description ", assignment.description);
      add(parts, "job group ", assignment.jobGroup);
      found.putIfAbsent(String.join(", ", parts), assignment);
    }
    return found;
  }

  private static void add(List<String> parts, String what, String value) {
    if (!value.isEmpty()) {
      parts.add(what + value);
    }
  }

  /** {@code pool}, {@code placement} or {@code order}. */
  public String getKind() {
    return kind;
  }

  public void setKind(String kind) {
    this.kind = kind;
  }

  /** Ids of the rules that it comes from, or came from; may be empty. */
  public String getRule() {
    return rule;
  }

  public void setRule(String rule) {
    this.rule = rule;
  }

  /** The pool, or what the query is recognised by. */
  public String getName() {
    return name;
  }

  public void setName(String name) {
    this.name = name;
  }

  /** How the pool was, or the pool that the query went into; empty if there was none. */
  public String getBefore() {
    return before;
  }

  public void setBefore(String before) {
    this.before = before;
  }

  /** How it is from now on; empty if the rule is gone. */
  public String getAfter() {
    return after;
  }

  public void setAfter(String after) {
    this.after = after;
  }
}
