/** The measurement of running tasks: clocks at their start and end, samples between. */
package org.iqcar.spark.executor.measure;

