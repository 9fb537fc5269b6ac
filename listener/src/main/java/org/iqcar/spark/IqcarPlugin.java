package org.iqcar.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/** {@code spark.plugins=org.iqcar.spark.IqcarPlugin}: measures on the driver and executors. */
public final class IqcarPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new DriverSide();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorSide();
  }
}
