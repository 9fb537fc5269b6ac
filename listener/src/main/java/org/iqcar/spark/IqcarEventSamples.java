package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonRawValue;
import com.fasterxml.jackson.annotation.JsonSetter;
import org.apache.spark.scheduler.SparkListenerEvent;

/** A batch of samples of a host and of an executor's processes. */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventSamples implements SparkListenerEvent {
  public int version = 1;
  public String host = "";
  public String executor = "";
  /** Number of samples dropped before this batch because the driver was slow. */
  public long dropped;
  /** The samples as a JSON array of one object per sample. */
  @JsonRawValue public String samples = "[]";

  /** Discards the samples: a History Server, which reads events, does not use them. */
  @JsonSetter
  public void setSamples(Object ignored) {
    samples = "[]";
  }
}
