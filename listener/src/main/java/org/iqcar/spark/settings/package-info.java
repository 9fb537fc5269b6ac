/** The settings of an application: what there is to set, and what is set. */
package org.iqcar.spark.settings;

