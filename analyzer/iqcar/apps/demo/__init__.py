"""Runs the demo: TPC-DS queries with a heavy hitter, their diagnosis, and again with rules.

It needs Spark, DuckDB and its TPC-DS generator: ``pip install 'iqcar[demo]'``.
"""
