"""Answers what-if questions in a process of its own, which keeps the model for the next question.

The server writes lines of JSON to its standard input: a :class:`Task`, then questions, each with
what :func:`iqcar.replay.whatif.question.parse_request` takes. Lines of JSON come back: how far it
is, that the model is made, and for each question why there is no answer, or the bytes of the answer
as JSON and as HTML, which follow. It ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from queue import Queue
from typing import TYPE_CHECKING, Any

from iqcar.apps.serve.analysis_process import Task, preload, read_logs
from iqcar.apps.serve.process_limits import bound_answer, bound_memory, memory_words
from iqcar.errors import IqcarError, UsageError, explain_bug
from iqcar.tables import texts

if TYPE_CHECKING:
    from iqcar.diagnosis import WhatIfs

__all__ = ["main", "preload"]

MOST_NAMES = 300
"""Names of queries and hosts that a form offers."""


def main() -> None:
    """Make the model of the logs that come in first, then answer questions."""
    lines: Queue[bytes] = Queue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    outgoing = answers.buffer

    def tell(*parts: bytes, **news: Any) -> None:
        try:
            outgoing.write(json.dumps(news).encode() + b"\n" + b"".join(parts))
            outgoing.flush()
        except (OSError, ValueError):
            os._exit(1)  # the server has gone

    bound_memory()
    try:
        asked = _modelled(Task.from_line(lines.get()), tell)
    except IqcarError as error:
        return tell(failed=str(error))
    except Exception as error:
        return tell(failed=f"making the model {explain_bug(error)}")
    bound_answer()
    while True:
        try:
            parts = _answered(asked, json.loads(lines.get()))
            tell(*parts, sizes=[len(part) for part in parts])
        except UsageError as error:
            tell(wrong=str(error))
        except IqcarError as error:
            tell(failed=str(error))
        except MemoryError:
            tell(failed=f"answering {memory_words()}")
        except Exception as error:
            tell(failed=f"answering {explain_bug(error)}")


def _modelled(task: Task, tell: Any) -> WhatIfs:
    from iqcar.diagnosis import WhatIfs
    from iqcar.pipeline import diagnose

    tables = read_logs(task, task.logs, tell)
    tell(phase="analysing", share=0.0)
    diagnosis = diagnose(tables, **task.settings, rules=False)
    tell(phase="fitting what tasks need", share=0.0)
    asked = WhatIfs(diagnosis)
    model = asked.model
    for member in model.members:
        model.base(member)
    names = dict.fromkeys(texts(diagnosis.tables.queries, "name"))
    hosts = dict.fromkeys(model.scenario.hosts)
    tell(ready=True, names=[*names][:MOST_NAMES], hosts=[*hosts][:MOST_NAMES])
    return asked


def _answered(asked: WhatIfs, changes: dict[str, Any]) -> tuple[bytes, bytes]:
    """Answer as JSON and as HTML."""
    from iqcar.replay.whatif.question import parse_request
    from iqcar.show.html.whatif import answer_html, plan_html, removal_blame_html
    from iqcar.show.json.whatif import whatif_to_json

    wanted = parse_request(**changes)
    found = asked.answer(wanted.question) if wanted.question else None
    planned = asked.plan(**wanted.plan) if wanted.plan else None
    blamed = asked.blame_by_removal(wanted.blame) if wanted.blame else None
    parts = [
        answer_html(found, level=2) if found else "",
        plan_html(planned, level=2) if planned else "",
        removal_blame_html(blamed, level=2) if blamed else "",
    ]
    return whatif_to_json(found, planned, blamed), "".join(parts).encode("utf-8", "replace")


def _listen(lines: Queue[bytes]) -> None:
    """Take lines in; end this process when there are no more, whatever it is doing."""
    while line := sys.stdin.buffer.readline():
        lines.put(line)
    os._exit(0)
