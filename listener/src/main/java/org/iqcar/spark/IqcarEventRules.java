package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.iqcar.spark.rules.RuleChange;
import org.iqcar.spark.rules.RuleNews;

/**
 * The event that says which rules act from its time on, or why a changed file of rules does not.
 *
 * <p>Event logs contain this class's name, so it must not change. A History Server without the
 * class skips the event. One with it creates the object by reflection, which needs a constructor
 * without parameters; fields of later versions are ignored.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventRules implements SparkListenerEvent {
  /** Most changes listed in one event; a file of rules has some ten. */
  private static final int MOST_CHANGES = 1000;

  private int version = 1;
  private long timeMs;
  private String outcome = "";
  private String reason = "";
  private String hash = "";
  private int pools;
  private int assignments;
  private List<RuleChange> changes = new ArrayList<>();
  private int changesLeftOut;

  public IqcarEventRules() {}

  IqcarEventRules(long timeMs, RuleNews news) {
    this.timeMs = timeMs;
    outcome = news.outcome;
    reason = news.reason;
    hash = news.hash;
    pools = news.pools;
    assignments = news.assignments;
    int listed = Math.min(news.changes.size(), MOST_CHANGES);
    changes = new ArrayList<>(news.changes.subList(0, listed));
    changesLeftOut = news.changes.size() - listed;
  }

  public int getVersion() {
    return version;
  }

  public void setVersion(int version) {
    this.version = version;
  }

  public long getTimeMs() {
    return timeMs;
  }

  public void setTimeMs(long timeMs) {
    this.timeMs = timeMs;
  }

  public String getOutcome() {
    return outcome;
  }

  public void setOutcome(String outcome) {
    this.outcome = outcome;
  }

  public String getReason() {
    return reason;
  }

  public void setReason(String reason) {
    this.reason = reason;
  }

  public String getHash() {
    return hash;
  }

  public void setHash(String hash) {
    this.hash = hash;
  }

  public int getPools() {
    return pools;
  }

  public void setPools(int pools) {
    this.pools = pools;
  }

  public int getAssignments() {
    return assignments;
  }

  public void setAssignments(int assignments) {
    this.assignments = assignments;
  }

  public List<RuleChange> getChanges() {
    return changes;
  }

  public void setChanges(List<RuleChange> changes) {
    this.changes = changes;
  }

  public int getChangesLeftOut() {
    return changesLeftOut;
  }

  public void setChangesLeftOut(int changesLeftOut) {
    this.changesLeftOut = changesLeftOut;
  }
}
