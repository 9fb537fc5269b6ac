/** What is told: records of tasks with their carrier, events, and metrics. */
package org.iqcar.spark.events;

