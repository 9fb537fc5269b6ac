/** Samples of the host, taken by a Python process, and their way to the driver. */
package org.iqcar.spark.executor.host;

