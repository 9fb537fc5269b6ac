"""Checks that all prose writes a share as ``68 %``: on the terminal, and in strings of JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.advised_log import advised_log
from tests.support.command import iqcar

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
WITHOUT_SPACE = re.compile(r".{0,40}\d%.{0,20}")
MONDAY, TUESDAY = (EXAMPLES / day / f"app-{day}-1.zstd" for day in ("monday", "tuesday"))


@pytest.mark.slow
def test_no_prose_has_a_percent_sign_right_after_a_digit(tmp_path: Path) -> None:
    advised, rules, made = advised_log().write(tmp_path / "app-1"), tmp_path / "r.json", []
    for words in (
        ("analyze", advised, "--full", "--rules", tmp_path / "advice.json"),
        ("analyze", MONDAY, "--full", "--target", "daily_sales", "--rules", rules),
        ("rules", "compile", rules, "--out", tmp_path / "pools"),
        ("rules", "check", rules, MONDAY, TUESDAY),
        ("compare", EXAMPLES / "monday", EXAMPLES / "tuesday"),
        ("compare", MONDAY, TUESDAY),
        ("whatif", MONDAY, "--remove", "etl_heavy", "--slots", "+2"),
    ):
        made.append(tmp_path / f"{len(made)}.json")
        done = iqcar(*words, "--json", made[-1])
        assert done.returncode == 0, done.stderr
        assert " %" in done.stdout or words[0] == "rules"
        assert WITHOUT_SPACE.findall(done.stdout + done.stderr) == []
    made += [rules, tmp_path / "advice.json", *(tmp_path / "pools").iterdir()]
    for path in made:
        assert WITHOUT_SPACE.findall(path.read_text("utf-8")) == [], path.name
