package org.iqcar.spark;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonRawValue;
import com.fasterxml.jackson.annotation.JsonSetter;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * Some seconds of what a host and an executor's processes did.
 *
 * <p>A History Server without this class ignores the event. One with it makes the object by
 * reflection, so it keeps a constructor without parameters and ignores fields it does not know.
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
   * @param batch host, executor, number of dropped samples, and samples with commas between
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

  /** Samples lost before this batch, because the driver was slow. */
  public long getDropped() {
    return dropped;
  }

  public void setDropped(long dropped) {
    this.dropped = dropped;
  }

  /** A JSON array, one object per sample. */
  @JsonRawValue
  public String getSamples() {
    return samples;
  }

  /** A History Server has no use for them: read, and let go. */
  @JsonSetter
  public void setSamples(Object ignored) {
    samples = "[]";
  }
}
