/**
 * Entry points that settings name, and events that event logs name. Beside them stands what they run
 * on the driver and on executors; sub-packages hold the rest, and none of them uses this package.
 */
package org.iqcar.spark;
