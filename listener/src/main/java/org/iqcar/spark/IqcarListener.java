package org.iqcar.spark;

import org.apache.spark.SparkConf;
import org.iqcar.spark.driver.DriverListener;

/**
 * The plugin's listener, for applications that configure it.
 *
 * <p>Configured by {@code spark.extraListeners=org.iqcar.spark.IqcarListener}.
 */
public final class IqcarListener extends DriverListener {
  public IqcarListener(SparkConf conf) {
    super(conf);
  }
}
