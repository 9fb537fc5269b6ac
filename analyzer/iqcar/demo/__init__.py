"""The demo: TPC-DS queries beside a heavy hitter, recorded, diagnosed, and run again with rules.

It needs Spark, DuckDB and its TPC-DS generator: ``pip install 'iqcar[demo]'``.
"""
