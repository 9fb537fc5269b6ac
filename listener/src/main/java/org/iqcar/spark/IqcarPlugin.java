package org.iqcar.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.iqcar.spark.driver.Application;
import org.iqcar.spark.driver.DriverSide;
import org.iqcar.spark.executor.ExecutorSide;

/**
 * Measures tasks on the executors and records scheduling on the driver.
 *
 * <p>Configured by {@code spark.plugins=org.iqcar.spark.IqcarPlugin}.
 */
public final class IqcarPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new DriverSide();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorSide(Application::post);
  }
}
