"""The report as HTML: what it holds, that it adds up, and that names in it stay text."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import iqcar
from iqcar.base import limits
from iqcar.base.units import duration
from iqcar.causes.blame.demand_weights import KNOWN, UNATTRIBUTED
from iqcar.causes.topics.jobs import enough_for_topics
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.say import find_verdict
from iqcar.say.blamed import RecurringNames
from iqcar.say.input_sections import coverage_section
from iqcar.show.html import files, render_page
from iqcar.show.html.payload import (
    FOLDED,
    KEYS,
    LABEL_LETTERS,
    bounded,
    lay_out_blame,
    page_payload,
    rows_of_each,
)
from iqcar.show.json.analyze import result_schema, to_dict, to_json
from iqcar.show.pictures.timeline import json_for_html, source_hash
from iqcar.show.terminal.analyze import print_diagnosis
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.conftest import REPO
from tests.support.contended_log import NO_IO
from tests.support.crowded_log import NAMES, crowded_log
from tests.support.page_reader import Reader, sections

MS = 0.01
"""Sums of numbers that were rounded to a thousandth of a ms: a few hundred of them."""
SIX_DIGITS = 1e-5
"""Sums of numbers that were rounded to six digits: each is off by five millionths of itself
at most, and so is their sum."""


def diagnosed(log: SyntheticLog, folder: Path, **options: object) -> Diagnosis:
    path = folder / log.app_id
    return iqcar.diagnose(iqcar.read(log.write(path)), **options)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    return diagnosed(crowded_log(), tmp_path_factory.mktemp("crowded"), topics=True)


@pytest.fixture(scope="module")
def page(crowded: Diagnosis) -> Reader:
    return Reader(render_page(crowded))


def test_the_sections_stand_in_the_order_of_a_reader_s_questions(page: Reader) -> None:
    assert sections(page) == [
        "verdict", "matrix", "explore", "timeline", "hosts", "driver", "wasted", "stragglers",
        "rules", "whatif", "inputs",
    ]  # fmt: skip


def test_nothing_in_the_page_is_fetched_from_elsewhere(page: Reader) -> None:
    for tag, attributes in page.tags:
        for name in ("src", "srcset", "action", "data", "poster", "background"):
            assert name not in attributes, (tag, attributes)
        if tag in ("a", "link"):
            assert (attributes.get("href") or "").startswith("#")
        assert tag not in ("iframe", "object", "embed", "form", "base")


def test_the_policy_allows_exactly_the_scripts_and_the_style_that_are_there(page: Reader) -> None:
    (policy,) = (
        a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(part.split(" ", 1) for part in policy.split("; "))
    assert rules["default-src"] == "'none'"
    data = [a.get("type") == "application/json" for tag, a in page.tags if tag == "script"]
    programs = [text for text, is_data in zip(page.raw["script"], data, strict=True) if not is_data]
    assert rules["script-src"].split() == [source_hash(text) for text in programs]
    assert rules["style-src"].split() == [source_hash(page.raw["style"][0]), source_hash("")]
    assert "unsafe-inline" not in rules["script-src"] + rules["style-src"]
    assert not any(name.startswith("on") for _, a in page.tags for name in a)


def test_the_verdict_says_who_lost_what_to_whom_and_where(page: Reader) -> None:
    said = "report lost 11.2 s of its 14.0 s: 11.0 s (79 %) waiting for slots held by etl on all 3"
    assert said in page.words
    assert "2 of 4 queries were held up by others, mostly by etl." in page.words


def test_runs_of_the_culprit_and_of_the_worst_victim_are_summed() -> None:
    diagnosis = iqcar.diagnose(iqcar.read(sorted((REPO / "examples" / "monday").iterdir())))
    head = find_verdict(diagnosis).headline
    assert head.startswith(
        "6 of 12 queries were held up by others, mostly by etl_heavy (3 runs). Most was lost by "
        "daily_sales (3 runs): "
    )
    targets = find_verdict(diagnosis).targets
    lost = sum(one.to_others_ms for one in targets if one.name.startswith("daily_sales"))
    assert f": {duration(lost)}, " in head


def test_runs_of_a_recurring_query_share_one_card() -> None:
    diagnosis = iqcar.diagnose(iqcar.read(sorted((REPO / "examples" / "monday").iterdir())))
    verdict = find_verdict(diagnosis)
    sales, customers = verdict.recurring
    assert [one.name for one in verdict.recurring] == [
        "daily_sales (3 runs)",
        "top_customers (3 runs)",
    ]
    for whole in (sales, customers):
        assert len(whole.runs) == 3
        for part in ("ran_ms", "lost_ms", "to_others_ms"):
            assert getattr(whole, part) == pytest.approx(
                sum(getattr(run, part) for run in whole.runs)
            )
        assert sum(one.lost_ms for one in whole.blamed) == pytest.approx(whole.lost_ms)
        assert "held by etl_heavy (3 runs) on host-a" in whole.sentence
    words = Reader(render_page(diagnosis)).words
    assert words.count("Explore the worst run of daily_sales (3 runs)") == 1
    assert words.count("severe") == 2


def test_a_number_is_not_torn_from_its_unit_and_files_are_as_they_are(
    crowded: Diagnosis,
) -> None:
    html = render_page(crowded)
    body = html[html.index("<body") : html.index("<script")]
    # Text in drawings is never broken into lines.
    body = re.sub(r"<svg.*?</svg>", "", body, flags=re.DOTALL)
    assert len(re.findall(r"\d\N{NO-BREAK SPACE}s\b", body)) > 10
    assert re.findall(r">[^<\n]*\d( ?%| (?:ms|s|min)\b)", body) == []
    assert "11.0\N{NO-BREAK SPACE}s (79\N{NO-BREAK SPACE}%)" in html


def test_what_is_explored_sums_to_what_the_json_says(crowded: Diagnosis) -> None:
    payload = page_payload(crowded, lay_out_blame(crowded.graph, len(crowded.tables.queries)))
    people, kinds = payload["people"]["queries"], [one["key"] for one in payload["kinds"]]
    result = {query["query_id"]: query for query in to_dict(crowded)["queries"]}
    assert len(payload["explore"]["targets"]) == len(NAMES)
    for target in payload["explore"]["targets"]:
        rows = target["rows"]
        expected = result[people[target["query"]]["id"]]
        assert sum(rows["lost"]) == pytest.approx(expected["lost_ms"], rel=SIX_DIGITS)
        by_source: dict[tuple[str, str | None], float] = {}
        for kind, source, lost in zip(rows["kind"], rows["source"], rows["lost"], strict=True):
            named = kinds[kind] in ("query", "own")
            key = (kinds[kind], people[source]["id"] if named else None)
            by_source[key] = by_source.get(key, 0.0) + lost
        for blame in expected["blame"]:
            found = by_source.pop((blame["kind"], blame["source_query_id"]), 0.0)
            assert found == pytest.approx(blame["lost_ms"], rel=SIX_DIGITS)
        assert by_source == {}


def test_the_matrix_sums_to_what_the_queries_lost(crowded: Diagnosis) -> None:
    blame_rows = lay_out_blame(crowded.graph, len(crowded.tables.queries))
    payload = page_payload(crowded, blame_rows)
    cells, labels = payload["matrix"]["cells"], payload["matrix"]["targets"]
    recurring, lost = RecurringNames(crowded.tables), crowded.lost_ms()
    sums = dict.fromkeys(labels, 0.0)
    for target, parts in zip(cells["target"], cells["lost"], strict=True):
        sums[labels[target]] += sum(parts)
    of = dict.fromkeys(recurring.first, 0.0)
    for row, first in enumerate(recurring.first):
        of[first] += lost[row]
    named = dict(zip(recurring.labels(list(of), LABEL_LETTERS), of.values(), strict=True))
    assert sums == pytest.approx({label: named[label] for label in labels}, abs=MS)


def test_the_matrix_has_one_row_and_column_for_all_runs_of_a_query(tmp_path: Path) -> None:
    paths = [
        crowded_log(app, NAMES, start).write(tmp_path / app)
        for app, start in (("app-1", 1_700_000_000_000), ("app-2", 1_700_000_100_000))
    ]
    diagnosis = iqcar.diagnose(iqcar.read(paths))
    blame_rows = lay_out_blame(diagnosis.graph, len(diagnosis.tables.queries))
    payload = page_payload(diagnosis, blame_rows)
    matrix, people = payload["matrix"], payload["people"]["queries"]
    for labels in (matrix["sources"], matrix["targets"]):
        assert len(set(labels)) == len(labels)
        assert set(labels) <= {f"{name} (2 runs)" for name in NAMES}
    cells = matrix["cells"]
    assert sum(map(sum, cells["lost"])) == pytest.approx(diagnosis.lost_ms().sum(), abs=MS)
    columns = (cells[key] for key in ("source", "target", "from", "to"))
    for source, target, by, run in zip(*columns, strict=True):
        assert matrix["targets"][target] == f"{people[run]['name']} (2 runs)"
        assert source < 0 or matrix["sources"][source] == f"{people[by]['name']} (2 runs)"


rows_of_blame = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(0, 8),
        st.integers(-1, 60),
        st.integers(0, 3),
        st.integers(-1, 90),
        st.floats(0, 1e6, allow_nan=False),
    ),
    min_size=1,
    max_size=400,
)


@given(rows_of_blame, st.integers(20, 200))
def test_folding_changes_no_sum_and_keeps_the_rows_few(rows: list[tuple], most: int) -> None:
    import pandas as pd

    columns = ["stage", "request", "host", "kind", "source_stage", "lost_ms"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["source"] = np.where(frame["source_stage"] >= 0, frame["source_stage"] // 2, -1)
    frame["dor"] = frame["lost_ms"] / 7
    hosts = np.arange(limits.MOST_HOSTS, dtype=np.int64)
    whole, folded = bounded(frame, most, hosts)
    # Beyond the limit only requests, kinds and "none" tell the joined rows apart.
    assert len(whole) <= max(most, most // 2 + 9 * 4 * 2 * 2)
    for column in ("lost_ms", "dor"):
        assert whole[column].sum() == pytest.approx(frame[column].sum())
    for column in ("request", "kind"):
        before = frame.groupby(column)["lost_ms"].sum().to_dict()
        assert whole.groupby(column)["lost_ms"].sum().to_dict() == pytest.approx(before)
    assert not whole.duplicated(list(KEYS)).any()
    assert folded == bool(
        (whole[["stage", "host", "source_stage", "source"]] == FOLDED).any().any()
    )


@given(st.integers(0, 5000))
def test_the_worst_hit_queries_get_most_rows_and_all_together_have_a_bound(queries: int) -> None:
    rows = rows_of_each(queries)
    assert len(rows) == queries
    assert rows == sorted(rows, reverse=True)
    assert all(limits.LEAST_ROWS_OF_QUERY <= one <= limits.MOST_ROWS_OF_QUERY for one in rows)
    if queries <= limits.MOST_EXPLORED:
        assert sum(rows) <= limits.MOST_ROWS


@given(st.text())
def test_data_in_a_script_element_can_not_end_it(text: str) -> None:
    encoded = json_for_html({"name": text})
    assert "<" not in encoded
    assert not set(encoded) & {"\u2028", "\u2029"}
    (found,) = json.loads(encoded).values()
    assert len(found) == len(text)
    kept = zip(found, text, strict=True)
    assert all(one == own or (one == " " and not own.isprintable()) for one, own in kept)


HOSTILE = (
    "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>",
    "\"' onmouseover='window.hurt = 3' x=\"</title></style></script><!--",
    "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd\u202c {{ 7 * 7 }} ${window.hurt = 4} %{x}",
    "SELECT * FROM t WHERE c IN (" + ", ".join(f"'value {i}'" for i in range(600)) + ")",  # noqa: S608
)


@pytest.mark.slow
def test_names_in_logs_are_text_and_never_markup(tmp_path: Path) -> None:
    text = render_page(diagnosed(crowded_log(names=HOSTILE), tmp_path), title=HOSTILE[0])
    hostile = Reader(text)
    plain = Reader(render_page(diagnosed(crowded_log("app-2"), tmp_path)))
    for tag in ("script", "style", "img", "meta", "title"):
        count = [name for name, _ in hostile.tags].count(tag)
        assert count == [name for name, _ in plain.tags].count(tag), tag
    assert not any(name.startswith("on") for _, a in hostile.tags for name in a)
    assert "<script>window.hurt = 1</script>" in hostile.words
    assert "\u202e" not in text
    texts = [query.get("text", query["name"]) for query in hostile.payload()["people"]["queries"]]
    assert any("value 599" in one for one in texts)


def test_secrets_in_paths_and_descriptions_are_not_in_the_page(tmp_path: Path) -> None:
    log = crowded_log(names=("jdbc password=hunter2secret", *NAMES[1:]))
    folder = tmp_path / "token=abc123secret"
    folder.mkdir()
    text = render_page(diagnosed(log, folder))
    assert "hunter2secret" not in text
    assert "abc123secret" not in text


def test_a_quiet_application_looks_quiet(tmp_path: Path) -> None:
    ran = task_metrics(Executor_Run_Time=970, Executor_CPU_Time=970_000_000, **NO_IO)
    log = SyntheticLog("app-1").app().executor("1", "h1", 4)
    log.sql(0, description="alone").job(0, [0], properties={"spark.sql.execution.id": "0"})
    log.stage(stage_info(0, submission=2000)).task(0, metrics=ran).stage_end(0, 3000)
    diagnosis = diagnosed(log.job_end(0, 3000).sql_end(0, 3000).end(), tmp_path)
    verdict = find_verdict(diagnosis)
    assert verdict.quiet
    page = Reader(render_page(diagnosis))
    assert re.search(r"No query lost (time|more than [\d.]+ ms) to another\.", page.words)
    classes = " ".join(a.get("class") or "" for _, a in page.tags).split()
    assert "quiet" in classes
    assert not {"severe", "marked", "slight"} & set(classes)
    assert "No scheduler rule is proposed" in page.words


def test_an_application_without_tasks_gives_a_page_that_says_so(tmp_path: Path) -> None:
    page = Reader(render_page(diagnosed(SyntheticLog("app-1").app().end(), tmp_path)))
    assert "Nothing ran in these logs that could have waited." in page.words
    assert "nothing to explore" in page.words


def test_coverage_of_every_wait_sums_to_all_task_time(crowded: Diagnosis) -> None:
    rows = coverage_section(crowded).rows
    assert rows
    for _, _, *shares in rows:
        assert sum(shares) == pytest.approx(1)


def test_a_page_with_its_program_elsewhere_allows_only_that_origin(crowded: Diagnosis) -> None:
    text = render_page(crowded, assets="/assets/", home="/")
    page = Reader(text)
    assert len(text) < 1_000_000
    assert [a["src"] for _, a in page.tags if "src" in a] == ["/assets/plotly.js"]
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert f"script-src 'self' {source_hash(files.program())};" in policy
    assert "/" in [a.get("href") for tag, a in page.tags if tag == "a"]


def test_the_payload_names_every_resource_and_no_row_is_out_of_range(crowded: Diagnosis) -> None:
    payload = page_payload(crowded, lay_out_blame(crowded.graph, len(crowded.tables.queries)))
    assert [one["key"] for one in payload["resources"]] == [str(one) for one in Resource]
    people = payload["people"]
    for target in payload["explore"]["targets"]:
        rows = target["rows"]
        assert len({len(column) for column in rows.values()}) == 1
        for key, names in (("stage", "stages"), ("sourceStage", "stages"), ("source", "queries")):
            assert all(FOLDED <= at < len(people[names]) for at in rows[key])
        for kind, source in zip(rows["kind"], rows["source"], strict=True):
            assert (source >= 0) == (kind not in (KNOWN, UNATTRIBUTED))


def test_topics_are_looked_for_where_there_are_enough_stages(crowded: Diagnosis) -> None:
    assert not enough_for_topics(crowded.tables)


GOLD = {"kind": "pool", "rule": "AGG-1", "name": "<b>gold", "after": "FIFO weight 3 minShare 0"}


def ruled(folder: Path) -> Diagnosis:
    """A diagnosis of a log with one rule and one file that was not accepted."""
    log = crowded_log()
    for time, outcome, reason, changes in (
        (1_000_001_000, "accepted", "", [GOLD]),
        (1_000_002_000, "refused", "r.json: not JSON", []),
    ):
        event = {"timeMs": time, "outcome": outcome, "reason": reason, "changes": changes}
        log.event("org.iqcar.spark.IqcarEventRules", event)
    return iqcar.diagnose(iqcar.read(log.write(folder / log.app_id)), expected=False)


def test_terminal_page_and_json_say_which_rule_acted_and_what_was_refused(tmp_path: Path) -> None:
    diagnosis = ruled(tmp_path)
    terminal = io.StringIO()
    print_diagnosis(diagnosis, Console(file=terminal, width=200))
    said = terminal.getvalue()
    assert "Rules that acted" in said
    assert "pool <b>gold: FIFO weight 3 minShare 0" in said
    assert "rules file refused, the rules stayed as they were: r.json: not JSON" in said

    page = render_page(diagnosis)
    assert "pool &lt;b&gt;gold: FIFO weight 3 minShare 0" in page
    assert "r.json: not JSON" in page

    result = json.loads(to_json(diagnosis))
    jsonschema.validate(result, json.loads(result_schema()))
    (acted,) = result["acting_rules"]["acted"]
    assert (acted["rule"], acted["from_ms"], acted["until_ms"]) == ("AGG-1", 1_000_001_000, None)
    assert len(result["acting_rules"]["not_accepted"]) == 1


def test_without_rules_nothing_is_said_of_any(tmp_path: Path) -> None:
    log = crowded_log()
    diagnosis = iqcar.diagnose(iqcar.read(log.write(tmp_path / log.app_id)), expected=False)
    terminal = io.StringIO()
    print_diagnosis(diagnosis, Console(file=terminal))
    assert "Rules that acted" not in terminal.getvalue()
    assert 'id="acted"' not in render_page(diagnosis)
