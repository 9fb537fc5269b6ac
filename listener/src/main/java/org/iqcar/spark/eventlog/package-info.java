/** What a task writes into the event log: its record, the profile in it, and their carrier. */
package org.iqcar.spark.eventlog;
