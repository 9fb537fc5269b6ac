"""Attach iqcar to Spark: the plugin's jar, Spark settings, query names, host samples."""
