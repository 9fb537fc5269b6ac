"""``iqcar report`` and ``iqcar analyze --html``: what they write, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.show.html.files import report_name
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.page_reader import Reader, sections


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["/logs/app-1.zstd"], "app-1-report.html"),
        (["s3a://bucket/eventlog_v2_app-7/"], "eventlog_v2_app-7-report.html"),
        (["app-1.inprogress"], "app-1-report.html"),
        (["a", "b"], "iqcar-report.html"),
        (["logs/*.zstd"], "iqcar-report.html"),
        (["."], "iqcar-report.html"),
        (["s3a://bucket/x?token=1"], "iqcar-report.html"),
    ],
)
def test_the_report_is_named_after_the_log(paths: list[str], name: str) -> None:
    assert report_name(paths) == name


@pytest.mark.slow
def test_the_command_writes_the_file_refuses_to_overwrite_it_and_says_so(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    done = iqcar("report", log, cwd=tmp_path)
    assert done.returncode == 0
    assert "report lost 9.0 s, 90 % of its run" in done.stdout
    assert done.stderr.strip().splitlines()[-1] == "Wrote app-1-report.html"
    text = (tmp_path / "app-1-report.html").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "report lost 9.0 s of its 10.0 s" in text
    assert text.count("<html") == 1
    again = iqcar("report", log, cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    forced = iqcar("report", log, "--force", "--title", "Monday", cwd=tmp_path)
    assert forced.returncode == 0
    assert "<title>Monday" in (tmp_path / "app-1-report.html").read_text("utf-8")


@pytest.mark.slow
def test_analyze_writes_the_same_page_beside_its_text(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    done = iqcar("analyze", log, "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1. Contention" in done.stdout
    page = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert sections(page)[0] == "verdict"


@pytest.mark.slow
def test_a_cut_log_still_gives_a_page_and_the_exit_code_says_it(tmp_path: Path) -> None:
    log = contended_log()
    (tmp_path / "cut").write_bytes(log.bytes()[:-300])
    done = iqcar("report", "cut", "--out", "cut.html", cwd=tmp_path)
    assert done.returncode == 3
    assert "truncated" in Reader((tmp_path / "cut.html").read_text("utf-8")).words


def test_nothing_readable_is_one_line_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"\x00\x01 not a log")
    done = iqcar("report", "junk", cwd=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["junk"]


def test_an_unknown_target_names_the_nearest(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    done = iqcar("report", log, "--target", "reprot", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean report" in done.stderr
