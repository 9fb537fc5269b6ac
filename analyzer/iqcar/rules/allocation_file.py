"""Write pools as Spark's allocation file, usually called fairscheduler.xml."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from iqcar.rules.pool_plan import Pool


def allocation_xml(pools: Iterable[Pool]) -> bytes:
    """Return the file that ``spark.scheduler.allocation.file`` names.

    Parameters
    ----------
    pools : iterable of Pool
        Names without control characters, as those of every plan are.
    """
    root = ElementTree.Element("allocations")
    for pool in pools:
        element = ElementTree.SubElement(root, "pool", name=pool.name)
        for tag, value in (
            ("schedulingMode", pool.mode),
            ("weight", str(pool.weight)),
            ("minShare", str(pool.min_share)),
        ):
            ElementTree.SubElement(element, tag).text = value
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"
