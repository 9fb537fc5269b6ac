/** Streams the events of the event log to programs that follow the application while it runs. */
package org.iqcar.spark.driver.stream;

