"""What a notebook shows of a diagnosis, a comparison and an answer: sections, no scripts.

All of it is HTML that stands alone: everything from logs is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import replace

from iqcar.base.limits import MOST_DOUBTS, MOST_DRAWN_CHANGES, MOST_WASTED
from iqcar.base.units import short
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.comparison_sections import (
    changes_headline,
    changes_section,
    differences_sentence,
    totals_sentence,
)
from iqcar.diagnosis import Diagnosis
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.say import Verdict, find_verdict, meanings
from iqcar.say.section import Section, columns
from iqcar.say.sections import wasted_section
from iqcar.say.sentences import counts
from iqcar.say.what_if_sentences import check_sentence, total_lines
from iqcar.show.pictures.comparison_plots import ComparisonPlots
from iqcar.show.pictures.question_bars import predicted_durations

TEXT_WIDTH = 600
"""Characters of a sentence: three names and the words between them."""
MOST_SAVINGS = 5


def notebook_html(diagnosis: Diagnosis) -> str:
    """Write the verdict of a diagnosis."""
    verdict = find_verdict(diagnosis)
    parts = [_bold(verdict.do_not_apply)] if verdict.do_not_apply else []
    parts += [_bold(f"iqcar: {', '.join(counts(diagnosis.tables))}"), _line(verdict.headline)]
    for one in verdict.findings[:MOST_SAVINGS]:
        head = ": ".join(filter(None, (one.kind.words, one.saving)))
        parts.append(_line(f"{head}. {one.sentence} {one.action}"))
    for target in verdict.recurring:
        parts.append(_line(f"{target.severity.words}: {target.sentence}"))
    if verdict.recurring:
        words = [f"{name}: {text}" for name, text in meanings(verdict).items()]
        parts += [_table(_targets(verdict)), _folded("What these words mean", words) * bool(words)]
    if any(line.delayed for line in verdict.wasted):
        wasted = wasted_section(diagnosis, verdict.wasted, MOST_WASTED)
        parts.append(f"<details><summary>{wasted.title}</summary>{_section(wasted)}</details>")
    return "".join([*parts, _doubts(verdict.doubts, "diagnosis.doubts")])


def comparison_html(comparison: Comparison) -> str:
    """Write what differs between two sides, the changes and the waterfall."""
    parts = [
        _bold(f"iqcar: {changes_headline(comparison)}"),
        _line(totals_sentence(comparison)),
        _line(differences_sentence(comparison)),
    ]
    if not comparison.changes.empty:
        section = changes_section(comparison)
        rows = zip(section.rows, comparison.changes["parent"], strict=True)
        queries = replace(section, rows=tuple(row for row, parent in rows if parent < 0))
        parts.append(_section(queries.first(MOST_DRAWN_CHANGES, "more in comparison.changes")))
        parts.append(ComparisonPlots(comparison).waterfall().svg)
    return "".join([*parts, _doubts(comparison.doubts, "comparison.doubts")])


def what_if_html(answer: WhatIf) -> str:
    """Write what an answer comes to, how far it can be trusted, and the durations."""
    answered = answer.total["change_percent"] is not None
    said = [*(total_lines(answer) if answered else ()), *answer.refused]
    doubtful = [check_sentence(answer.self_check), f"assumed: {'; '.join(answer.assumptions)}"]
    return "".join(
        [
            _bold(answer.question.sentence()),
            *map(_line, said),
            predicted_durations(answer).svg if answered else "",
            *map(_line, doubtful),
        ]
    )


def _targets(verdict: Verdict) -> Section:
    """Queries that lost most, and to whom."""
    return Section(
        "targets",
        "",
        columns=columns("query:name | id:name | ran:time | lost:time | to whom:times"),
        rows=tuple(
            (
                one.name,
                one.query_id,
                one.ran_ms,
                one.lost_ms,
                {
                    f"{by.name} {by.number}".rstrip() if by.query >= 0 else by.name: by.lost_ms
                    for by in one.blamed
                },
            )
            for one in verdict.recurring
        ),
    )


def _section(section: Section) -> str:
    """Write a section: its sentence, table, notes and advice."""
    advice = (f"{cause}: {helps}" for cause, helps in section.advice)
    said = [section.sentence] if section.sentence else []
    lines = (*said, *section.notes, *advice)
    return _table(section) + "".join(map(_line, lines))


def _table(section: Section) -> str:
    head = _row("th", (column.title for column in section.columns))
    body = "".join(_row("td", cells) for cells in section.written())
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>" if section.rows else ""


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _line(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def _bold(text: str) -> str:
    return f"<p><b>{_text(text)}</b></p>"


def _doubts(doubts: Sequence[str], whole: str) -> str:
    """The first doubts, and where the others are."""
    left = len(doubts) - MOST_DOUBTS
    more = [f"{left} more in {whole}"] if left > 0 else []
    return _folded("What is doubtful", [*doubts[:MOST_DOUBTS], *more]) if doubts else ""


def _folded(title: str, items: Iterable[str]) -> str:
    listed = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<details><summary>{title}</summary><ul>{listed}</ul></details>"


def _text(text: str) -> str:
    """Escape and shorten a text that may hold names from logs, kept from reordering its place."""
    return f"\u2068{html.escape(short(text, TEXT_WIDTH))}\u2069"
