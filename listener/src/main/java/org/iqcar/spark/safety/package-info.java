/**
 * What keeps the plugin harmless to a job: counted failures, bounded memory. It also reads Spark's
 * private state, for all rooms.
 */
package org.iqcar.spark.safety;

