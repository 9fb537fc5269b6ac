package org.iqcar.spark.driver.rules;

import com.fasterxml.jackson.core.JsonLocation;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.iqcar.spark.driver.queries.RunningQueries;

/** Parses compiled rules: pools of the FAIR scheduler, and which query goes into which pool. */
final class PoolRules {
  static final String DEFAULT_POOL = "default";
  static final String SCHEMA_VERSION = "1";

  private static final String ADVICE = "ADVICE";
  private static final String FIX = "correct the file, or write it anew with: iqcar rules compile";
  private static final String COMPILE = "compile it first: iqcar rules compile";
  private static final int LONGEST_NAME = 500;
  /** The scheduler looks at all of them whenever slots are free. */
  private static final int MOST_POOLS = 1_000;

  /** One FAIR pool. */
  static final class PoolSpec {
    final String name;
    final int weight;
    final int minShare;
    final String mode;
    /** Most tasks that run at once; 0: no such cap. */
    final int cap;
    /** The same as a share of the slots; 0: no such cap. */
    final double capShare;
    /** Whether the cap also holds where slots are idle. */
    final boolean strict;

    PoolSpec(String name, int weight, int minShare, String mode) {
      this(name, weight, minShare, mode, 0, 0.0, false);
    }

    PoolSpec(String name, int weight, int minShare, String mode, int cap, double capShare,
        boolean strict) {
      this.name = name;
      this.weight = weight;
      this.minShare = minShare;
      this.mode = mode;
      this.cap = cap;
      this.capShare = capShare;
      this.strict = strict;
    }

    boolean isCapped() {
      return cap > 0 || capShare > 0.0;
    }

    /** Most tasks that may run at once where there are so many slots; 1 at least. */
    int most(int slots) {
      int most = cap > 0 ? cap : Integer.MAX_VALUE;
      if (capShare > 0.0) {
        // Slots times a share that was written with few digits: 0.3 of 10 are 3.
        most = Math.min(most, (int) Math.floor(capShare * slots + 1e-9));
      }
      return Math.max(1, most);
    }

    /** Every field, to detect a change. */
    String describe() {
      return name + " " + mode + " weight " + weight + " minShare " + minShare
          + (cap > 0 ? " cap " + cap : "") + (capShare > 0.0 ? " cap " + capShare + " of slots" : "")
          + (isCapped() && strict ? " strict" : "");
    }
  }

  /** Assigns queries to a pool; an empty field is not compared. */
  static final class Assignment {
    final String pool;
    /** Id of the rule that it comes from; may be empty. */
    final String rule;
    final String fingerprint;
    final String description;
    final String jobGroup;

    Assignment(
        String pool, String rule, String fingerprint, String description, String jobGroup) {
      this.pool = pool;
      this.rule = rule;
      this.fingerprint = fingerprint;
      this.description = description;
      this.jobGroup = jobGroup;
    }

    boolean matches(RunningQueries.Query query, String group) {
      return (fingerprint.isEmpty() || fingerprint.equals(query.fingerprint))
          && (description.isEmpty() || description.equals(query.description))
          && (jobGroup.isEmpty() || jobGroup.equals(group));
    }
  }

  final Map<String, PoolSpec> pools;
  final List<Assignment> assignments;

  /** No rules at all. */
  static PoolRules none() {
    return new PoolRules(Collections.emptyMap(), Collections.emptyList());
  }

  private PoolRules(Map<String, PoolSpec> pools, List<Assignment> assignments) {
    this.pools = Collections.unmodifiableMap(pools);
    this.assignments = Collections.unmodifiableList(assignments);
  }

  boolean isEmpty() {
    return pools.isEmpty() && assignments.isEmpty();
  }

  /** The pool of the first assignment that matches, or null. */
  String poolOf(RunningQueries.Query query, String group) {
    for (Assignment assignment : assignments) {
      if (assignment.matches(query, group)) {
        return assignment.pool;
      }
    }
    return null;
  }

  /**
   * Parses and validates a file.
   *
   * @param path name of the file in messages
   * @param others names of pools that exist without the file
   * @throws RulesRefused if the file is not valid
   */
  static PoolRules parse(String path, byte[] json, Set<String> others) {
    JsonNode top;
    try {
      top = new ObjectMapper()
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS).readTree(json);
    } catch (JsonProcessingException e) {
      JsonLocation at = e.getLocation();
      String place = at == null ? ""
          : " in line " + at.getLineNr() + ", column " + at.getColumnNr();
      throw new RulesRefused(path + place, "not JSON: " + e.getOriginalMessage(), FIX);
    } catch (IOException | StackOverflowError e) {
      throw new RulesRefused(path, "not JSON: " + e, FIX);
    }
    if (top == null || !top.isObject()) {
      throw new RulesRefused(path, "not a JSON object", FIX);
    }
    if (!top.has("pools")) {
      throw new RulesRefused(path, "has no \"pools\"", COMPILE);
    }
    if (!SCHEMA_VERSION.equals(top.path("schema_version").asText())) {
      throw new RulesRefused(path, "schema_version is " + top.path("schema_version")
          + ", this plugin reads \"" + SCHEMA_VERSION + "\"",
          "use the plugin of the iqcar that wrote it");
    }
    Map<String, PoolSpec> pools = new LinkedHashMap<>();
    int i = 0;
    JsonNode listed = list(path, top, "pools");
    if (listed.size() > MOST_POOLS) {
      throw new RulesRefused(path,
          "has " + listed.size() + " pools, more than " + MOST_POOLS, "put queries together in pools");
    }
    for (JsonNode entry : listed) {
      String place = path + ": pools[" + i++ + "]";
      String name = text(place, entry, "name", true);
      String mode = entry.has("mode") ? text(place, entry, "mode", true) : "FIFO";
      if (!mode.equals("FIFO") && !mode.equals("FAIR")) {
        throw new RulesRefused(place, "mode is " + entry.get("mode") + ", not FIFO or FAIR", FIX);
      }
      PoolSpec pool = new PoolSpec(
          name, number(place, entry, "weight", 1), number(place, entry, "min_share", 0), mode,
          entry.has("cap") ? number(place, entry, "cap", 1) : 0, share(place, entry, "cap_share"),
          bool(place, entry, "strict"));
      if (pools.put(name, pool) != null) {
        throw new RulesRefused(place, "a second pool is named " + entry.get("name"), FIX);
      }
    }
    return new PoolRules(pools, assignments(path, top, pools, others));
  }

  private static List<Assignment> assignments(
      String path, JsonNode top, Map<String, PoolSpec> pools, Set<String> others) {
    Set<String> advice = idsOfAdvice(path, top);
    List<Assignment> found = new ArrayList<>();
    for (JsonNode entry : list(path, top, "assignments")) {
      String place = path + ": assignments[" + found.size() + "]";
      String rule = entry.path("rule_id").asText();
      if (advice.contains(rule)) {
        throw new RulesRefused(place, rule + " is advice to people and makes no pool", FIX);
      }
      Assignment assignment = new Assignment(
          text(place, entry, "pool", true),
          rule,
          text(place, entry, "fingerprint", false),
          text(place, entry, "description", false),
          text(place, entry, "job_group", false));
      if (!pools.containsKey(assignment.pool) && !others.contains(assignment.pool)) {
        throw new RulesRefused(place, "there is no pool " + entry.get("pool"), FIX);
      }
      if (assignment.fingerprint.isEmpty() && assignment.description.isEmpty()
          && assignment.jobGroup.isEmpty()) {
        throw new RulesRefused(place, "names no fingerprint, description or job_group", FIX);
      }
      found.add(assignment);
    }
    return found;
  }

  /** Ids of the rules of type ADVICE, which are for people: no assignment may come from one. */
  private static Set<String> idsOfAdvice(String path, JsonNode top) {
    Set<String> ids = new HashSet<>();
    for (JsonNode rule : list(path, top, "rules")) {
      if (ADVICE.equals(rule.path("rule-type").asText())) {
        ids.add(rule.path("id").asText());
      }
    }
    return ids;
  }

  private static JsonNode list(String path, JsonNode top, String key) {
    JsonNode found = top.path(key);
    if (!found.isArray() && !found.isMissingNode()) {
      throw new RulesRefused(path, key + " is not a list", FIX);
    }
    return found;
  }

  private static String text(String place, JsonNode object, String key, boolean required) {
    JsonNode value = object.path(key);
    if (value.isMissingNode() && !required && object.isObject()) {
      return "";
    }
    if (!value.isTextual()) {
      throw new RulesRefused(place, value.isMissingNode()
          ? "has no " + key : key + " is " + value + ", not text", FIX);
    }
    String text = value.textValue();
    if (required && (text.trim().isEmpty() || text.length() > LONGEST_NAME)) {
      throw new RulesRefused(place, key + " is empty or longer than " + LONGEST_NAME, FIX);
    }
    return text;
  }

  private static double share(String place, JsonNode object, String key) {
    JsonNode value = object.path(key);
    double share = value.doubleValue();
    return value(place, object, key, value.isNumber() && share > 0.0 && share <= 1.0,
        "a share above 0 up to 1").doubleValue();
  }

  private static boolean bool(String place, JsonNode object, String key) {
    return value(place, object, key, object.path(key).isBoolean(), "true or false").asBoolean();
  }

  private static int number(String place, JsonNode object, String key, int least) {
    JsonNode value = object.path(key);
    boolean fits = value.isIntegralNumber() && value.canConvertToInt() && value.intValue() >= least;
    return value(place, object, key, fits, "a whole number from " + least).asInt(least);
  }

  /** A value that is as it must be, or missing. */
  private static JsonNode value(
      String place, JsonNode object, String key, boolean fits, String wanted) {
    JsonNode value = object.path(key);
    if (!fits && !value.isMissingNode()) {
      throw new RulesRefused(place, key + " is " + value + ", not " + wanted, FIX);
    }
    return value;
  }
}
