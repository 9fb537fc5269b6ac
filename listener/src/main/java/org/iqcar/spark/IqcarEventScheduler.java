package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * The event that holds the scheduler's mode, slots and pools from its time on.
 *
 * <p>Event logs contain this class's name, so it must not change. A History Server without the
 * class skips the event. One with it creates the object by reflection, which needs a constructor
 * without parameters; fields of later versions are ignored.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventScheduler implements SparkListenerEvent {
  private int version = 1;
  private long timeMs;
  private String mode = "";
  private int executors;
  private int slots;
  private int taskCpus;
  private List<PoolState> pools = new ArrayList<>();

  /** One pool of the FAIR scheduler. */
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class PoolState {
    private String name = "";
    private String mode = "";
    private int weight;
    private int minShare;
    private int cap;
    private boolean strict;

    public String getName() {
      return name;
    }

    public void setName(String name) {
      this.name = name;
    }

    public String getMode() {
      return mode;
    }

    public void setMode(String mode) {
      this.mode = mode;
    }

    public int getWeight() {
      return weight;
    }

    public void setWeight(int weight) {
      this.weight = weight;
    }

    public int getMinShare() {
      return minShare;
    }

    public void setMinShare(int minShare) {
      this.minShare = minShare;
    }

    /** Most tasks that run at once, with the slots there are now; 0: no cap. */
    public int getCap() {
      return cap;
    }

    public void setCap(int cap) {
      this.cap = cap;
    }

    /** Whether the cap also holds where slots are idle. */
    public boolean isStrict() {
      return strict;
    }

    public void setStrict(boolean strict) {
      this.strict = strict;
    }
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

  public String getMode() {
    return mode;
  }

  public void setMode(String mode) {
    this.mode = mode;
  }

  public int getExecutors() {
    return executors;
  }

  public void setExecutors(int executors) {
    this.executors = executors;
  }

  public int getSlots() {
    return slots;
  }

  public void setSlots(int slots) {
    this.slots = slots;
  }

  public int getTaskCpus() {
    return taskCpus;
  }

  public void setTaskCpus(int taskCpus) {
    this.taskCpus = taskCpus;
  }

  public List<PoolState> getPools() {
    return pools;
  }

  public void setPools(List<PoolState> pools) {
    this.pools = pools;
  }

  /** Text of every field but the time, to detect a change. */
  String describe() {
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
