package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;

/** Which rules act from a time on, or why a changed file of rules does not. */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventRules implements SparkListenerEvent {
  public int version = 1;
  public long timeMs = System.currentTimeMillis();
  /** {@code accepted}, {@code refused}, {@code missing} or {@code unreadable}. */
  public String outcome = "";
  /** Why the rules stay as they are; empty if accepted. */
  public String reason = "";
  /** The first half of the content's SHA-256 in hexadecimal; empty if it was not read. */
  public String hash = "";
  /** Number of pools and of assignments that act from now on. */
  public int pools;
  public int assignments;
  public List<Change> changes = new ArrayList<>();
  public int changesLeftOut;

  /** One difference between two sets of rules. */
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class Change {
    /** {@code pool}, {@code placement} or {@code order}. */
    public String kind = "";
    /** Ids of the rules that it comes from, or came from; may be empty. */
    public String rule = "";
    /** The pool, or what the query is recognised by. */
    public String name = "";
    /** How the pool was, or the pool that the query went into; empty if there was none. */
    public String before = "";
    /** How it is from now on; empty if the rule is gone. */
    public String after = "";
  }
}
