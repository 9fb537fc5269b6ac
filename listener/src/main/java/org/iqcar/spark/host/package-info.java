/**
 * Samples of the host: the process that takes them, what it is told to watch, and the way to the
 * driver.
 */
package org.iqcar.spark.host;
