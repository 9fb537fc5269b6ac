/** The Python workers of a task: finding them, and splitting the wait for them. */
package org.iqcar.spark.executor.python;

