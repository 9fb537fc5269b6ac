package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonRawValue;
import com.fasterxml.jackson.annotation.JsonSetter;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * The event that holds a batch of samples of a host and of an executor's processes.
 *
 * <p>Event logs contain this class's name, so it must not change. A History Server without the
 * class skips the event. One with it creates the object by reflection, which needs a constructor
 * without parameters; fields of later versions are ignored.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class IqcarEventSamples implements SparkListenerEvent {
  private int version = 1;
  private String host = "";
  private String executor = "";
  private long dropped;
  private String samples = "[]";

  public IqcarEventSamples() {}

  /**
   * @param batch host, executor, number of dropped samples, and the samples as JSON objects
   *     separated by commas
   */
  IqcarEventSamples(String[] batch) {
    host = batch[0];
    executor = batch[1];
    dropped = Long.parseLong(batch[2]);
    samples = "[" + batch[3] + "]";
  }

  public int getVersion() {
    return version;
  }

  public void setVersion(int version) {
    this.version = version;
  }

  public String getHost() {
    return host;
  }

  public void setHost(String host) {
    this.host = host;
  }

  public String getExecutor() {
    return executor;
  }

  public void setExecutor(String executor) {
    this.executor = executor;
  }

  /** Number of samples dropped before this batch because the driver was slow. */
  public long getDropped() {
    return dropped;
  }

  public void setDropped(long dropped) {
    this.dropped = dropped;
  }

  /** The samples as a JSON array of one object per sample. */
  @JsonRawValue
  public String getSamples() {
    return samples;
  }

  /** Discards the samples: a History Server, which reads events, does not use them. */
  @JsonSetter
  public void setSamples(Object ignored) {
    samples = "[]";
  }
}
