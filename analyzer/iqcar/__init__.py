"""iqcar: which Spark queries made yours wait, for what, where, by how much, and what to change.

>>> import iqcar
>>> tables = iqcar.read(["eventlogs/"])            # doctest: +SKIP
>>> diagnosis = iqcar.diagnose(tables)             # doctest: +SKIP

What changed between two sets of runs, and why:

>>> iqcar.compare("monday/", "tuesday/").changes   # doctest: +SKIP

In a PySpark program, name what runs and choose its pool:

>>> with iqcar.query("q39b", pool="gold"):         # doctest: +SKIP
...     spark.sql(text).collect()

Submodules are imported on first use so that ``iqcar --help`` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names
from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.apps.notebook import Comparison as Comparison
    from iqcar.apps.notebook import Diagnosis as Diagnosis
    from iqcar.apps.notebook import compare as compare
    from iqcar.apps.notebook import diagnose as diagnose
    from iqcar.logs.attach.query_scope import query as query
    from iqcar.pipeline import read as read
    from iqcar.tables import Tables as Tables

__all__ = [
    "Comparison",
    "Diagnosis",
    "Tables",
    "__version__",
    "compare",
    "diagnose",
    "query",
    "read",
]

__getattr__ = lazy_names(
    __name__,
    {
        "apps.notebook": ("Comparison", "Diagnosis", "compare", "diagnose"),
        "logs.attach.query_scope": ("query",),
        "pipeline": ("read",),
        "tables": ("Tables",),
    },
)
