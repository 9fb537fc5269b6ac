"""Own rates of stages, capacities of devices, and load by processes outside of Spark."""
