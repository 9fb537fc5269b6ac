"""What attaches iqcar to Spark: the plugin's jar, settings, query names, host samples."""
