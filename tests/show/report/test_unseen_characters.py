"""Characters that are not seen reach no terminal, page, picture, file of JSON, or agent."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.apps.mcp.slices import bounded
from iqcar.base.files.json_text import json_bytes, shown
from iqcar.show.pictures.drawing import escape
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.unseen import unseen

UNSEEN = "\u009b31m\u202e\u2066\u200b\u2028\x1b]0;x\x07\x7f\u0085\ufeff\U000e0041"


def hostile_log(folder: Path) -> Path:
    """The usual log with such characters in every name."""
    text = contended_log().bytes().decode()
    for name in ("etl", "report", "host-a", "contended"):
        text = text.replace(f'"{name}"', json.dumps(name + UNSEEN))
    path = folder / "app-1"
    path.write_text(text)
    return path


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    )
)
def test_json_holds_the_same_and_nothing_unseen(value: Any) -> None:
    for indent in (None, 2):
        content = json_bytes(value, indent)
        assert json.loads(content) == value
        assert not unseen(content.decode()) - {"\x1b"}
        blank = json.loads(shown(msgspec.json.encode(value)))
        assert unseen(json.dumps(blank, ensure_ascii=False)) == set()


def test_every_character_that_unicode_calls_unseen_is_escaped() -> None:
    every = "".join(
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
    )
    assert len(every) > 200
    assert json_bytes(every).isascii()
    assert not set(every) & set(shown(msgspec.json.encode(every))) - set("\u2068\u2069")


@given(st.text())
def test_pictures_and_agents_get_nothing_unseen(text: str) -> None:
    assert not unseen(escape(text))
    assert not unseen(bounded([{text: text}])[0].popitem()[1])


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("analyze",), ("analyze", "--json", "-"), ("queries",), ("queries", "--json", "-"),
        ("blame", "--target", "sql-1", "--json", "-"), ("whatif", "--slots", "+1"),
        ("whatif", "--slots", "+1", "--json", "-"),
        ("stragglers",), ("topics",), ("live", "--json"), ("live",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_prints_an_unseen_character(words: tuple[str, ...], tmp_path: Path) -> None:
    command, *options = words
    done = iqcar(command, hostile_log(tmp_path), *options)
    assert done.returncode in (0, 1, 3), done.stderr
    assert not unseen(done.stdout)
    assert not unseen(done.stderr)


@pytest.mark.long
def test_no_page_holds_an_unseen_character(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = iqcar("report", hostile_log(tmp_path), "--out", out)
    assert done.returncode == 0, done.stderr
    page = out.read_text(encoding="utf-8")
    own = iqcar(
        "report", contended_log().write(tmp_path / "plain"), "--out", tmp_path / "plain.html"
    )
    assert own.returncode == 0
    plain = (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert unseen(page) <= unseen(plain)  # Plotly's program holds some itself
    assert page.count("\u202e") == plain.count("\u202e")
