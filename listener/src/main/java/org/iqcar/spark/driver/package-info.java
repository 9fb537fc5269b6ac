/** The driver's half: what starts, listens and ends there. */
package org.iqcar.spark.driver;

