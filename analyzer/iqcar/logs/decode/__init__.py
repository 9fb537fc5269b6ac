"""Decompression of stored streams: every codec Spark writes event logs with."""
