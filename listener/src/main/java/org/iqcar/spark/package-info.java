/**
 * The entry points that settings name, what they run on the driver and on executors, and the
 * events whose class names stand in event logs.
 *
 * <p>Sub-packages hold the rest. None of them uses this package.
 */
package org.iqcar.spark;
