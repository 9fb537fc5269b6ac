/** Text of others: made printable, cleared of secrets, and matched as Python does. */
package org.iqcar.spark.text;

