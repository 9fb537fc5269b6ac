"""Statistics of comparisons, without Spark in them."""
