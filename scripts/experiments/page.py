"""Print docs/evaluation.md, the page of results, and a page for each long result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from evaluation_sections import SECTIONS, Section

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "evaluation"
INTRODUCTION = """\
What the papers measured on clusters of ten machines, repeated on one: simulated clusters whose
truth is known, and a real Spark with TPC-DS data and queries on a few task slots. The figures are
of one machine with two processors. Compare their order with the papers, not their size.

Each section answers one question with one table. The command that measures it stands above the
table, or on the page of the whole result. What the command found lies in `docs/evaluation/` as
JSON; every table is printed from it.
"""


def pages(printed: str) -> dict[str, str]:
    """Print every page from the results that are there, by its path in docs/."""
    found = [section for section in SECTIONS if (RESULTS / f"{section.name}.json").is_file()]
    lines = ["# Evaluation", printed, INTRODUCTION]
    for section in found:
        lines += _short(section) if section.headline else _whole(section)
    printed_pages = {"evaluation.md": "\n".join(lines).rstrip() + "\n"}
    for section in found:
        if section.headline:
            whole = ["# " + section.title, printed, *_whole(section)[2:]]
            whole += ["[All results](../evaluation.md)", ""]
            printed_pages[f"evaluation/{section.name}.md"] = "\n".join(whole)
    return printed_pages


def _short(section: Section) -> list[str]:
    """A section whose whole result has a page of its own."""
    assert section.headline is not None
    return [
        *(f"## {section.title}", "", section.answer, ""),
        *(section.headline(_result(section)), ""),
        f"[How it was measured, and all tables](evaluation/{section.name}.md)",
        "",
    ]


def _whole(section: Section) -> list[str]:
    """A section with everything that is known of its result."""
    lines = [f"## {section.title}", "", section.paper, ""]
    lines += [f"    .venv/bin/python scripts/experiments/{section.name}.py", ""]
    lines += [section.table(_result(section)), ""]
    return [*lines, section.seen, ""] if section.seen else lines


def _result(section: Section) -> dict[str, object]:
    found: dict[str, object] = json.loads((RESULTS / f"{section.name}.json").read_text("utf-8"))
    return found
