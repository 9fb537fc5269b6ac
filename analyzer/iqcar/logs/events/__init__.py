"""Events of a log: lines, typed structs, jobs, stages and SQL executions."""
