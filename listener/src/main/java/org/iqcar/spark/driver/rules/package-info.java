/** Rules that put queries into pools of the FAIR scheduler. */
package org.iqcar.spark.driver.rules;

