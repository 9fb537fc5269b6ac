/** What one thread did and what it waits for, from the kernel's files and from its stack. */
package org.iqcar.spark.executor.threads;

