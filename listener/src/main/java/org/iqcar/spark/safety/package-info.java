/**
 * What keeps the plugin harmless to a job: failures are counted, memory is bounded, and Spark's
 * private state is reached in one place.
 */
package org.iqcar.spark.safety;
