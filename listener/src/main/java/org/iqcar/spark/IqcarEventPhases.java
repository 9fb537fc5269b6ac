package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * The event that holds when the driver analysed, optimised and planned a SQL execution.
 *
 * <p>Event logs contain this class's name, so it must not change. A History Server without the
 * class skips the event. One with it creates the object by reflection, which needs a constructor
 * without parameters; fields of later versions are ignored.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventPhases implements SparkListenerEvent {
  private int version = 1;
  private long executionId;
  private List<Phase> phases = new ArrayList<>();
  private long compileMs = -1;

  public IqcarEventPhases() {}

  IqcarEventPhases(long executionId, List<Phase> phases, long compileMs) {
    this.executionId = executionId;
    this.phases = phases;
    this.compileMs = compileMs;
  }

  public int getVersion() {
    return version;
  }

  public void setVersion(int version) {
    this.version = version;
  }

  public long getExecutionId() {
    return executionId;
  }

  public void setExecutionId(long executionId) {
    this.executionId = executionId;
  }

  public List<Phase> getPhases() {
    return phases;
  }

  public void setPhases(List<Phase> phases) {
    this.phases = phases;
  }

  /** How long the driver's JVM compiled generated code meanwhile; −1 if unknown. */
  public long getCompileMs() {
    return compileMs;
  }

  public void setCompileMs(long compileMs) {
    this.compileMs = compileMs;
  }

  /** One of them, by the driver's clock. */
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class Phase {
    private String name = "";
    private long startMs;
    private long endMs;

    public Phase() {}

    Phase(String name, long startMs, long endMs) {
      this.name = name;
      this.startMs = startMs;
      this.endMs = endMs;
    }

    public String getName() {
      return name;
    }

    public void setName(String name) {
      this.name = name;
    }

    public long getStartMs() {
      return startMs;
    }

    public void setStartMs(long startMs) {
      this.startMs = startMs;
    }

    public long getEndMs() {
      return endMs;
    }

    public void setEndMs(long endMs) {
      this.endMs = endMs;
    }
  }
}
