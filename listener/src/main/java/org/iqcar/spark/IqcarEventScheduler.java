package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;

/** The scheduler's mode, slots and pools from a time on. */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventScheduler implements SparkListenerEvent {
  public int version = 1;
  public long timeMs = System.currentTimeMillis();
  public String mode = "";
  public int executors;
  public int slots;
  public int taskCpus;
  public List<PoolState> pools = new ArrayList<>();

  /** One pool of the FAIR scheduler. */
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class PoolState {
    public String name = "";
    public String mode = "";
    public int weight;
    public int minShare;
    /** Most tasks that run at once, with the slots there are now; 0: no cap. */
    public int cap;
    /** Whether the cap also holds where slots are idle. */
    public boolean strict;
  }

  /** Text of every field but the time, to detect a change. */
  public String describe() {
    StringBuilder text = new StringBuilder();
    text.append(mode).append(' ').append(executors).append(' ').append(slots);
    text.append(' ').append(taskCpus);
    for (PoolState pool : pools) {
      text.append('\n').append(pool.name).append(' ').append(pool.mode);
      text.append(' ').append(pool.weight).append(' ').append(pool.minShare);
      text.append(' ').append(pool.cap).append(' ').append(pool.strict);
    }
    return text.toString();
  }
}
