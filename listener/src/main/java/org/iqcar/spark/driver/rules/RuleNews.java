package org.iqcar.spark.driver.rules;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import org.iqcar.spark.IqcarEventRules;
import org.iqcar.spark.IqcarEventRules.Change;
import org.iqcar.spark.text.Secrets;

/** Tells what became of a file of rules when it was looked at. */
final class RuleNews {
  /** Its rules act from now on. */
  static final String ACCEPTED = "accepted";
  /** It is not valid; the rules stay as they are. */
  static final String REFUSED = "refused";
  /** It is not there (any more); the rules stay as they are. */
  static final String MISSING = "missing";
  /** Its file system does not answer, or not with a file; the rules stay as they are. */
  static final String UNREADABLE = "unreadable";

  /** Most changes listed in one event; a file of rules has some ten. */
  private static final int MOST_CHANGES = 1000;

  private RuleNews() {}

  /** Rules act from now on, in place of others. */
  static IqcarEventRules accepted(String hash, PoolRules before, PoolRules acting) {
    IqcarEventRules event = told(ACCEPTED, hash, acting);
    List<Change> changes = between(before, acting);
    int listed = Math.min(changes.size(), MOST_CHANGES);
    event.changes = new ArrayList<>(changes.subList(0, listed));
    event.changesLeftOut = changes.size() - listed;
    return event;
  }

  /** The rules stay as they are, because of an outcome above. */
  static IqcarEventRules notAccepted(
      String outcome, String reason, String hash, PoolRules acting) {
    IqcarEventRules event = told(outcome, hash, acting);
    event.reason = Secrets.redact(reason, Secrets.MAX_NAME);
    return event;
  }

  private static IqcarEventRules told(String outcome, String hash, PoolRules acting) {
    IqcarEventRules event = new IqcarEventRules();
    event.outcome = outcome;
    event.hash = hash;
    event.pools = acting.pools.size();
    event.assignments = acting.assignments.size();
    return event;
  }

  /** Whether news say nothing that earlier ones, or null, have not said. */
  static boolean repeats(IqcarEventRules news, IqcarEventRules earlier) {
    return earlier != null && news.outcome.equals(earlier.outcome)
        && news.hash.equals(earlier.hash);
  }

  /** What is different: pools, then queries that go into another pool, then the order of these. */
  static List<Change> between(PoolRules old, PoolRules next) {
    List<Change> found = new ArrayList<>();
    Set<String> pools = new LinkedHashSet<>(old.pools.keySet());
    pools.addAll(next.pools.keySet());
    for (String name : pools) {
      String before = text(old.pools.get(name));
      String after = text(next.pools.get(name));
      if (!before.equals(after)) {
        found.add(change("pool", rulesOf(after.isEmpty() ? old : next, name), name, before, after));
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
        found.add(change("placement", is == null ? was.rule : is.rule, query,
            was == null ? "" : was.pool, is == null ? "" : is.pool));
      }
    }
    if (found.isEmpty()
        && !new ArrayList<>(placed.keySet()).equals(new ArrayList<>(places.keySet()))) {
      found.add(change("order", "", "", "", "the first placement that matches counts"));
    }
    return found;
  }

  private static Change change(
      String kind, String rule, String name, String before, String after) {
    Change change = new Change();
    change.kind = kind;
    change.rule = Secrets.redact(rule, Secrets.MAX_NAME);
    change.name = Secrets.redact(name, Secrets.MAX_NAME);
    change.before = Secrets.redact(before, Secrets.MAX_NAME);
    change.after = Secrets.redact(after, Secrets.MAX_NAME);
    return change;
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
}
