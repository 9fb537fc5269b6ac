"""The demo: run TPC-DS queries with a heavy hitter, diagnose them, run them again with rules.

It needs Spark, DuckDB and its TPC-DS generator: ``pip install 'iqcar[demo]'``.
"""
