package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;

/** When the driver analysed, optimised and planned a SQL execution. */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventPhases implements SparkListenerEvent {
  public int version = 1;
  public long executionId;
  public List<Phase> phases = new ArrayList<>();
  /** How long the driver's JVM compiled generated code meanwhile; −1 if unknown. */
  public long compileMs = -1;

  /** One of them, by the driver's clock. */
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class Phase {
    public String name = "";
    public long startMs;
    public long endMs;

    public Phase() {}

    public Phase(String name, long startMs, long endMs) {
      this.name = name;
      this.startMs = startMs;
      this.endMs = endMs;
    }
  }
}
