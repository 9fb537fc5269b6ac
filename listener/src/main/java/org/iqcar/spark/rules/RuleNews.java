package org.iqcar.spark.rules;

import java.util.Collections;
import java.util.List;
import org.iqcar.spark.text.Secrets;

/** What became of a file of rules when it was looked at. */
public final class RuleNews {
  /** Its rules act from now on. */
  static final String ACCEPTED = "accepted";
  /** It is not valid; the rules stay as they are. */
  static final String REFUSED = "refused";
  /** It is not there (any more); the rules stay as they are. */
  static final String MISSING = "missing";
  /** Its file system does not answer, or not with a file; the rules stay as they are. */
  static final String UNREADABLE = "unreadable";

  /** One of the above. */
  public final String outcome;
  /** Why the rules stay as they are; empty if accepted. */
  public final String reason;
  /** The first half of the content's SHA-256 in hexadecimal; empty if it was not read. */
  public final String hash;
  /** Number of pools and of assignments that act from now on. */
  public final int pools;
  public final int assignments;
  public final List<RuleChange> changes;

  private RuleNews(
      String outcome, String reason, String hash, PoolRules acting, List<RuleChange> changes) {
    this.outcome = outcome;
    this.reason = Secrets.redact(reason, Secrets.MAX_NAME);
    this.hash = hash;
    pools = acting.pools.size();
    assignments = acting.assignments.size();
    this.changes = changes;
  }

  static RuleNews accepted(String hash, PoolRules acting, List<RuleChange> changes) {
    return new RuleNews(ACCEPTED, "", hash, acting, changes);
  }

  static RuleNews notAccepted(String outcome, String reason, String hash, PoolRules acting) {
    return new RuleNews(outcome, reason, hash, acting, Collections.emptyList());
  }

  /** Whether a second time would say nothing new. */
  boolean repeats(RuleNews earlier) {
    return earlier != null && outcome.equals(earlier.outcome) && hash.equals(earlier.hash);
  }
}
