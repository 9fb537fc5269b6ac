"""Prints what is in the code of each paper: docs/papers.md, from marks in modules' docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from scripts.printed_pages.page_parts import PRINTED

REPO = Path(__file__).resolve().parents[2]
PAPERS = {
    "iQCAR": "P. Kalmegh, S. Babu, S. Roy: *iQCAR: Inter-Query Contention Analyzer for Cluster "
    "Computing Frameworks*, 2018. `iqcar-lab printed blame`",
    "BigRoots": "H. Zhou, Y. Li, H. Yang, J. Jia, W. Li: *BigRoots: An Effective Approach for "
    "Root-cause Analysis of Stragglers in Big Data System*, 2018. "
    "`iqcar-lab printed stragglers`",
    "Hound": "P. Zheng, B. C. Lee: *Hound: Causal Learning for Datacenter-scale Straggler "
    "Diagnosis*, SIGMETRICS 2018. `iqcar-lab printed topics`",
    "Spectroscope": "R. R. Sambasivan et al.: *Diagnosing performance changes by comparing system "
    "behaviours*, CMU-PDL-10-107, 2010. `iqcar-lab printed compare`",
    "Intervention": "M. Goldszmidt, R. Isaacs: *More intervention now!*, HotOS 2011. "
    "`iqcar-lab printed whatif`",
}
"""Each paper, and the command that answers as it is printed."""
MARK = re.compile(r"^Paper: (.+?)(?=\nPaper: |\n\n|\Z)", re.MULTILINE | re.DOTALL)


class PaperMark(NamedTuple):
    """A line ``Paper: paper | place | how | test`` in a module's docstring."""

    paper: str
    place: str
    how: str
    test: str
    file: str


def marks() -> list[PaperMark]:
    """Return all marks of both packages, by paper, those of the laboratory first."""
    found = []
    for file in sorted((REPO / "analyzer").rglob("*.py")):
        said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        for mark in MARK.findall(said):
            parts = " ".join(mark.split()).split(" | ")
            found.append(PaperMark(*parts, str(file.relative_to(REPO / "analyzer"))))
    order = list(PAPERS)
    return sorted(found, key=lambda m: (order.index(m.paper), not m.file.startswith("iqcar_lab/")))


def papers_page() -> str:
    """What of each paper is where, which test checks it, and whether it is exact."""
    lines = [
        "# Papers",
        PRINTED,
        "What of the five papers is in which file, and which test checks it. Files of the",
        "laboratory, `iqcar_lab/printed/`, say what they take where a paper leaves a choice;",
        "others leave the paper where our own methods do better ([evaluation](evaluation.md)).",
    ]
    listed = marks()
    for paper, said in PAPERS.items():
        lines += ["", f"## {paper}", "", said, ""]
        lines += [
            f"- {m.place}: `{m.file}`, {m.how} (`{m.test}`)" for m in listed if m.paper == paper
        ]
    return "\n".join(lines) + "\n"
