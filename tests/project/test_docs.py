"""Documentation cannot rot: printed pages equal the code, and links and commands exist."""

from __future__ import annotations

import importlib.util
import pkgutil
import re
import shlex
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import zstandard
from typer.main import get_command

import iqcar
from iqcar.apps.cli.main import app
from iqcar.apps.cli.main import main as iqcar_main
from iqcar.enums import FindingKind
from iqcar.say.findings import find_findings
from scripts import pictures, tour, tour_logs, write_readme
from scripts.printed_pages import papers_page
from tests.conftest import REPO
from tests.project.test_packaging import MACHINE_PATH

spec = importlib.util.spec_from_file_location("write_docs", REPO / "scripts" / "write_docs.py")
write_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(write_docs)

MARKDOWN = [*REPO.glob("*.md"), *REPO.glob("docs/**/*.md")]
ROOM_NAMES = [init.parent.name for init in REPO.glob("analyzer/iqcar/*/__init__.py")]


@pytest.mark.parametrize("page", write_docs.PAGES)
def test_a_printed_page_equals_what_the_code_prints(page: str) -> None:
    stored = (REPO / "docs" / page).read_text(encoding="utf-8")
    assert stored == write_docs.PAGES[page](), "run scripts/write_docs.py"


@pytest.mark.slow
@pytest.mark.parametrize("page", [tour.PAGE, write_readme.README], ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_say(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == tour.with_output(text), "run scripts/write_docs.py and scripts/write_readme.py"


def test_the_examples_are_what_their_script_writes(tmp_path: Path) -> None:
    for path in tour_logs.write(tmp_path):
        stored = REPO / "examples" / path.relative_to(tmp_path)
        assert decompressed(stored) == decompressed(path), "run scripts/tour_logs.py"


def test_the_slow_job_is_slow_for_its_skew_and_tells_nothing_of_the_machine_it_ran_on() -> None:
    log = REPO / "examples" / "slow_job.zstd"
    assert not MACHINE_PATH.search(decompressed(log).decode())
    findings = find_findings(iqcar.diagnose(iqcar.read(log)))
    assert (findings[0].kind, findings[0].low_ms > 0) == (FindingKind.SKEW, True)


def decompressed(path: Path) -> bytes:
    with zstandard.open(path) as stream:
        return stream.read()


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda p: p.name)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


PLACES = ("", "analyzer/", "analyzer/iqcar/", "docs/", "listener/src/main/java/org/iqcar/spark/")
"""Where a path that a page names may begin."""
ROOTS = ("analyzer", "iqcar_lab", "docs", "listener", "rules", "scripts", "tests", *ROOM_NAMES)


PRESENT = [page for page in MARKDOWN if page.name != "CHANGELOG.md"]
"""Pages about the package as it is; past versions had other files."""
MOST_BYTES_OF_A_PICTURE = 300_000
MOST_WORDS, MOST_WRITTEN = 69_000, 41_000
"""Of all pages together, and of them without what is printed."""
PRINTED_PART = re.compile(
    r"<!-- (?:printed: .*?<!-- end|(demo|evaluation|misses|recording) -->.*?<!-- /\1) -->", re.S
)
FIELD = re.compile(r"^- `.*$", re.M)
DECLARED = ("commands", "compatibility", "kinds", "papers", "result", "stored-tables", "tables")


def written(page: Path) -> str:
    """Return the text of a page without what scripts print into it."""
    text = tour.BLOCK.sub("", PRINTED_PART.sub("", page.read_text("utf-8")))
    return "" if page.stem in DECLARED else FIELD.sub("", text) if page.stem == "rules" else text


def test_pages_stay_short() -> None:
    assert sum(len(page.read_text("utf-8").split()) for page in MARKDOWN) <= MOST_WORDS
    assert sum(len(written(page).split()) for page in MARKDOWN) <= MOST_WRITTEN


@pytest.mark.parametrize("page", PRESENT, ids=lambda p: p.name)
def test_paths_in_pages_exist(page: Path) -> None:
    for path in re.findall(r"`([a-z_]+/[\w./-]*)`", page.read_text("utf-8")):
        first, below = path.split("/", 1)
        if first in ROOTS and below and "target" not in path:
            found = any((REPO / place / path.rstrip("/")).exists() for place in PLACES)
            assert found, f"{page.name} names {path}"


def test_what_is_marked_as_of_a_paper_is_checked_by_a_test_that_knows_the_file() -> None:
    listed = papers_page.marks()
    assert {mark.paper for mark in listed} == set(papers_page.PAPERS)
    printed = {path.name for path in (REPO / "analyzer/iqcar_lab/printed").glob("[!_]*.py")}
    assert {Path(mark.file).name for mark in listed} >= printed
    for mark in listed:
        assert mark.how.startswith(("exact", "leaves it: ", "its text; ")), mark
        module = mark.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        assert module in (REPO / mark.test).read_text("utf-8"), mark


@pytest.mark.parametrize("page", PRESENT, ids=lambda p: p.name)
def test_modules_in_pages_exist(page: Path) -> None:
    for name in re.findall(r"(?<![\w.])(iqcar(?:\.\w+)+)", page.read_text("utf-8")):
        if name.split(".")[1] in ROOM_NAMES:
            assert pkgutil.resolve_name(name) is not None, f"{page.name} names {name}"


README = (REPO / "README.md").read_text("utf-8")
README_COMMANDS = [
    (block or row).split("#")[0].strip()
    for block, row in re.findall(r"^ {4}(iqcar [a-z].+)|(?<=\| `)(iqcar [^`]+)", README, re.M)
]
STAND_INS = {
    "spark-events/": "examples/monday/",
    "before.log": "examples/monday/app-monday-1.zstd",
    "after.log": "examples/monday/app-monday-2.zstd",
    "--out report.html": "--out another.html",
}
"""What the README's placeholders stand for here."""


def test_every_command_and_option_the_readme_names_exists() -> None:
    commands = get_command(app).commands
    assert len(README_COMMANDS) >= 10
    for _, name, *rest in map(str.split, README_COMMANDS):
        assert name in commands, f"README names iqcar {name}"
        options = {o for param in commands[name].params for o in param.opts} | {"--help"}
        for option in (word for word in rest if word.startswith("--")):
            assert option in options, f"README names iqcar {name} {option}"


@pytest.mark.slow
def test_the_commands_of_the_readme_can_be_typed_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(REPO / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    rules = [command for command in README_COMMANDS if "--rules rules.json" in command]
    assert rules, "it is typed twice: it can be repeated"
    for command in [*README_COMMANDS, *rules]:
        if command.startswith("iqcar rules check"):
            continue  # typed last: the rules come from a command further down
        if not command.startswith("iqcar serve"):  # ends with a signal
            typed(command)
    (check,) = (command for command in README_COMMANDS if command.startswith("iqcar rules check"))
    typed(check)


def typed(command: str) -> None:
    """Run a command here and now; it must succeed."""
    for placeholder, here in STAND_INS.items():
        command = command.replace(placeholder, here)
    with patch.object(sys, "argv", shlex.split(command)), pytest.raises(SystemExit) as ended:
        iqcar_main()
    assert not ended.value.code, command


@pytest.mark.parametrize("page", [write_readme.README, write_readme.EVALUATION])
def test_the_readme_and_its_page_show_what_experiments_found(page: Path) -> None:
    written = page.read_text("utf-8")
    marks = {name: text for name, text in write_readme.pages()[page].items() if name != "demo"}
    for mark, content in marks.items():
        assert write_readme.between_marks(written, mark, content) == written, "write_readme.py"


def test_the_demos_table_stands_without_its_doubts() -> None:
    text = f"{write_readme.CHANGED}\n\nquery  off\nq1  1 %\nDoubtful: one run.\nSo it is.\n\nmore"
    assert write_readme.demo(text) == "    query  off\n    q1  1 %"


def test_the_readme_shows_pictures_for_light_and_dark_that_load_fast() -> None:
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert {Path(path).name for path in shown} == {
        f"{section}-{theme}.png" for section in pictures.SHOWN for theme in pictures.THEMES
    }
    assert all((REPO / path).stat().st_size < MOST_BYTES_OF_A_PICTURE for path in shown)
    for path in re.findall(r'href="([^"]+)"', README):
        assert (REPO / path).is_file()


REFERENCE = re.compile(r":(?:func|class|mod|data|meth|attr):`[~!]?(iqcar[\w.]*)`")


def test_docstrings_refer_to_what_is_there() -> None:
    package = REPO / "analyzer" / "iqcar"
    found = {name for file in package.rglob("*.py") for name in REFERENCE.findall(file.read_text())}
    assert len(found) > 100
    assert sorted(name for name in found if not is_there(name)) == []


def is_there(dotted: str) -> bool:
    """Whether a module has the name, or a class of it the field."""
    try:
        pkgutil.resolve_name(dotted)
    except (AttributeError, ImportError):
        above, _, name = dotted.rpartition(".")
        return is_there(above) and name in vars(pkgutil.resolve_name(above)).get(
            "__annotations__", {}
        )
    return True
