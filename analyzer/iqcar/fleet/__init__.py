"""Many logs at once on Spark: logs are parsed and stages looked at where the data is."""
