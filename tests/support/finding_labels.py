"""What an expert says of event logs, and whether findings say it: labels written by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iqcar.say import Finding, Verdict

NOTHING = "nothing"
"""What is said where there is no finding."""


@dataclass(frozen=True)
class Label:
    """What an expert says of one log, from its raw events.

    expert: in a sentence.
    first: kinds of findings of which one has to come first; ``nothing`` where none may be there.
    words: one of them stands in the headline or the first finding; any do where there are none.
    never, never_words: kinds of findings, and words in them, that are wrong.
    """

    expert: str
    first: tuple[str, ...]
    words: tuple[str, ...]
    never: tuple[str, ...]
    never_words: tuple[str, ...]


class Judged(NamedTuple):
    """What iqcar says first, whether that is right, and what it says of what nobody may say."""

    said: str
    right: bool
    wrong: tuple[str, ...]


def labels() -> dict[str, Label]:
    """All labels by the log: its file, or its path in examples/."""
    path = Path(__file__).parents[1] / "data" / "finding_labels.json"
    found = json.loads(path.read_text("utf-8"))
    return {
        name: Label(**{key: tuple(v) if isinstance(v, list) else v for key, v in one.items()})
        for name, one in found.items()
    }


def judged(verdict: Verdict, label: Label) -> Judged:
    """Hold a verdict against what an expert says."""
    findings = verdict.findings
    said = findings[0].kind.value if findings else NOTHING
    first = " ".join([verdict.headline, *(_text(one) for one in findings[:1])]).lower()
    named = not label.words or any(word.lower() in first for word in label.words)
    kinds = {one.kind.value for one in findings}
    texts = [_text(one) for one in findings]
    wrong = [kind for kind in label.never if kind in kinds]
    wrong += [word for word in label.never_words if any(word in text for text in texts)]
    return Judged(said, said in label.first and named, tuple(wrong))


def _text(finding: Finding) -> str:
    settings = [f"{name}={value}" for name, value, _ in finding.settings]
    return " ".join([finding.subject, finding.sentence, finding.action, *settings])
