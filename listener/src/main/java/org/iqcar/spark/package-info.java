/**
 * Names that must not change: what settings name, and the events whose class event logs name. A
 * History Server without these classes skips the events; one with them makes each by a constructor
 * without parameters, sets its public fields, and ignores those of later versions.
 */
package org.iqcar.spark;

