/** Which query a job belongs to, and the query's fingerprint, as the analyzer determines them. */
package org.iqcar.spark.driver.queries;

