/** The executors' half: what is done at a task's start and end. */
package org.iqcar.spark.executor;

