"""The JSON API of `iqcar serve`, asked over HTTP: what it lists, analyses and describes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iqcar.show.json.analyze import result_schema
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.served import Served, served, until
from tests.support.small_log import small_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two applications on one host at one time, a later one, one that runs, and rubbish."""
    folder = tmp_path_factory.mktemp("logs")
    contended_log("app-1").write(folder / "app-20240101000000-0001")
    contended_log("app-2", start=6000).write(folder / "app-20240101000000-0002.log")
    contended_log("app-3", start=900_000).write(folder / "app-20240101000000-0003")
    small_log().write(folder / "application_1700000000000_0001.inprogress")
    (folder / "local-1700000000001").write_bytes(b"rubbish\n" * 20)
    (folder / "notes.txt").write_text("not a log")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(folder, cache=tmp_path_factory.mktemp("cache")) as server:
        server.read()
        yield server


def test_the_list_tells_what_heads_and_tails_of_logs_say(server: Served) -> None:
    rows = {Path(one["path"]).name: one for one in server.read()}
    assert len(rows) == 5
    first = rows["app-20240101000000-0001"]
    assert (first["name"], first["application_id"], first["user"]) == ("contended", "app-1", "ann")
    assert (first["start_ms"], first["end_ms"], first["duration_ms"]) == (1000, 12_000, 11_000)
    assert (first["status"], first["spark_version"]) == ("complete", "4.0.0")
    running = rows["application_1700000000000_0001.inprogress"]
    assert (running["status"], running["end_ms"], running["duration_ms"]) == (
        "in_progress", None, None,
    )  # fmt: skip
    rubbish = rows["local-1700000000001"]
    assert (rubbish["status"], rubbish["name"]) == ("failed", "local-1700000000001")
    assert rubbish["message"]


def test_it_is_searched_sorted_and_paged(server: Served) -> None:
    def ids(**query: object) -> list[str]:
        return [one["application_id"] for one in server.applications(**query)]

    assert ids(q="CONTENDED") == ["app-3", "app-2", "app-1"]
    assert ids(q="contended  -0002.LOG") == ["app-2"]
    assert ids(sort="start_ms", order="asc", status="complete") == ["app-1", "app-2", "app-3"]
    assert ids(sort="application_id", order="desc", status="complete")[0] == "app-3"
    # Unknown durations come last in both orders.
    assert ids(sort="duration_ms", order="asc")[-1] == ids(sort="duration_ms")[-1]
    pages = [ids(sort="size_bytes", size=2, page=page) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(one for page in pages for one in page) == sorted(ids())
    assert ids(sort="size_bytes", size=2, page=99) == pages[2]


@pytest.mark.slow
def test_a_result_is_what_iqcar_analyze_writes(server: Served, folder: Path) -> None:
    key = key_of(server, "app-20240101000000-0001")
    done = server.analyse(key)
    assert (done["state"], done["grown"]) == ("done", False)
    answer = server.client.get(f"/api/applications/{key}")
    assert answer.headers["iqcar-log-grown"] == "false"
    jsonschema.validate(answer.json(), json.loads(result_schema()))
    written = iqcar("analyze", folder / "app-20240101000000-0001", "--json", "-")
    assert answer.json() == json.loads(written.stdout)
    assert server.client.get(f"/api/analyses/{done['id']}/result").json() == answer.json()
    found = server.client.get(f"/api/applications/{key}/about").json()["application"]["found"]
    assert found["worst_name"] == "report"
    assert found["lost_to_others_ms"] == pytest.approx(9000, rel=0.01)
    assert server.start(key)["state"] == "done"


def key_of(server: Served, file: str) -> str:
    return next(one["key"] for one in server.read() if Path(one["path"]).name == file)


@pytest.mark.long
def test_what_ran_beside_an_application_is_named_and_analysed_together(server: Served) -> None:
    first = key_of(server, "app-20240101000000-0001")
    second = key_of(server, "app-20240101000000-0002.log")
    about = server.client.get(f"/api/applications/{first}/about").json()
    (beside,) = about["neighbours"]
    assert beside == {
        "key": second, "name": "contended", "overlap_ms": 6000, "hosts": ["host-a"],
    }  # fmt: skip
    done = server.analyse(first, second)
    assert done["applications"] == sorted([first, second])
    result = server.client.get(f"/api/analyses/{done['id']}/result").json()
    assert {each["application_id"] for each in result["inputs"]} == {"app-1", "app-2"}
    assert {query["application_id"] for query in result["queries"]} == {"app-1", "app-2"}
    # The same set in another order, and with a key twice, is the same analysis.
    again = server.start(second, first, second)
    assert (again["id"], again["state"]) == (done["id"], "done")


@pytest.mark.slow
def test_what_cannot_be_analysed_fails_with_its_reason(server: Served) -> None:
    key = next(one["key"] for one in server.read() if one["status"] == "failed")
    ended = server.analyse(key)
    assert ended["state"] == "failed"
    assert "not a Spark event log" in ended["message"]
    assert server.client.get(f"/api/applications/{key}").status_code == 409


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/applications/0123456789abcdef01234567", 404),
        ("/api/applications/..%2F..%2Fetc%2Fpasswd", 404),
        ("/api/analyses/0123456789abcdef0123456789abcdef", 404),
        ("/api/analyses/0123456789abcdef0123456789abcdef/result", 404),
        ("/api/nothing", 404),
        ("/api/applications?sort=path", 400),
        ("/api/applications?page=0", 400),
        ("/api/applications?page=one", 400),
        ("/api/applications?size=501", 400),
        ("/api/applications?nonsense=1", 400),
        ("/api/applications?status=null", 400),
        ("/static/..%2Fworker.py", 404),
        ("/static/../worker.py", 404),
        ("/together", 400),
        ("/together?app=x&app=y", 400),
        ("/together?app=0123456789abcdef01234567", 404),
        ("/api/together?app=0123456789abcdef01234567&app=0123456789abcdef01234568", 404),
    ],
)
def test_what_does_not_exist_or_makes_no_sense_is_refused(
    server: Served, path: str, status: int
) -> None:
    answer = server.client.get(path)
    assert answer.status_code == status, answer.text
    if path.startswith("/api"):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
        assert answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"\xff\xfe", b'{"applications": []}', b'{"applications": "x"}',
     b'{"applications": ["../x"]}', b'{"applications": [1]}', b"[" * 5000,
     b'{"applications": ["0123456789abcdef01234567"], "path": "/etc"}'],
)  # fmt: skip
def test_a_body_that_says_nothing_to_analyse_is_refused(server: Served, body: bytes) -> None:
    assert server.client.post("/api/analyses", content=body).status_code == 400


def test_methods_that_are_not_declared_are_refused(server: Served) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = server.client.request(method, "/api/applications")
        assert answer.status_code == 405
        assert "GET" in answer.headers["allow"]
    assert server.client.get("/api/analyses").status_code == 405
    assert server.client.get("/analyse").status_code == 405


WORDS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(
    parts=st.lists(st.one_of(WORDS, st.sampled_from(["..", ".", "%00", "%2e%2e"])), max_size=4),
    query=st.dictionaries(
        st.one_of(WORDS, st.sampled_from(["q", "sort", "order", "page", "size", "status", "app"])),
        st.one_of(WORDS, st.integers().map(str), st.sampled_from(["", "name", "asc", "NaN"])),
        max_size=4,
    ),
    start=st.sampled_from(["/api/applications", "/api/analyses", "/applications", "/together",
                           "/static", ""]),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_address_makes_the_server_fail(
    server: Served, parts: list[str], query: dict[str, str], start: str
) -> None:
    try:
        answer = server.client.get("/".join([start, *parts]) or "/", params=query)
    except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError):
        return
    assert answer.status_code < 500, answer.text


@given(body=st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_makes_the_server_fail(server: Served, body: object) -> None:
    for wrapped in (body, {"applications": body}):
        content = json.dumps(wrapped).encode()
        answer = server.client.post("/api/analyses", content=content)
        assert answer.status_code in (400, 404, 413)


def resolve(document: dict, reference: str) -> object:
    found: object = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def references(found: object) -> Iterator[str]:
    if isinstance(found, dict):
        if isinstance(found.get("$ref"), str):
            yield found["$ref"]
        for value in found.values():
            yield from references(value)
    elif isinstance(found, list):
        for value in found:
            yield from references(value)


@pytest.mark.slow
def test_the_description_is_valid_and_describes_what_is_answered(server: Served) -> None:
    document = server.client.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    named = list(references(document))
    assert named
    for reference in named:
        resolve(document, reference)
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema), name

    def check(path: str, template: str) -> None:
        answer = server.client.get(path)
        described = document["paths"][template]["get"]["responses"][str(answer.status_code)]
        media = answer.headers["content-type"].partition(";")[0]
        schema = {**described["content"][media]["schema"], "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())

    rows = server.read()
    key = next(one["key"] for one in rows if one["application_id"] == "app-3")
    check("/api/applications", "/api/applications")
    check("/api/applications?page=0", "/api/applications")
    check(f"/api/applications/{key}", "/api/applications/{key}")
    done = server.analyse(key)
    check("/api/applications", "/api/applications")
    check(f"/api/applications/{key}", "/api/applications/{key}")
    check(f"/api/applications/{key}/about", "/api/applications/{key}/about")
    check(f"/api/analyses/{done['id']}", "/api/analyses/{id}")
    check(f"/api/analyses/{done['id']}/result", "/api/analyses/{id}/result")
    check(f"/api/together?app={key}&app={rows[0]['key']}", "/api/together")
    check("/api/together", "/api/together")
    check("/api/analyses/none", "/api/analyses/{id}")
    check("/api/openapi.json", "/api/openapi.json")


def test_every_route_of_the_api_is_described_and_shown_to_people(server: Served) -> None:
    document = server.client.get("/api/openapi.json").json()
    page = server.client.get("/api").text
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}" in page


def _append(log: Path, lines: list[bytes]) -> None:
    """Add lines to a log as Spark does: what was there stays."""
    with log.open("ab") as file:
        file.write(b"\n".join(lines) + b"\n")


@pytest.mark.long
def test_a_log_that_grows_is_told_and_analysed_again(tmp_path: Path) -> None:
    log = contended_log().lines
    running = tmp_path / "logs" / "app-20240101000000-0001.inprogress"
    running.parent.mkdir()
    running.write_bytes(b"\n".join(log[: len(log) // 2]) + b"\n")
    with served(running.parent, cache=tmp_path / "cache", rescan=0.2) as server:
        (row,) = server.read()
        first = server.analyse(row["key"])
        assert first["state"] == "done"
        _append(running, log[len(log) // 2 : -1])
        about = f"/api/applications/{row['key']}/about"
        until(lambda: server.client.get(about).json()["progress"]["grown"])
        assert server.client.get(about).json()["application"]["found"]["grown"]
        result = server.client.get(f"/api/applications/{row['key']}")
        assert (result.status_code, result.headers["iqcar-log-grown"]) == (200, "true")
        assert server.client.get(f"/api/analyses/{first['id']}").json()["grown"]
        second = server.analyse(row["key"])
        assert second["id"] != first["id"]
        result = server.client.get(f"/api/applications/{row['key']}")
        assert result.headers["iqcar-log-grown"] == "false"
        assert len(result.json()["queries"]) == 2
        # The application ends, and Spark renames its log: it is the same application.
        _append(running, log[-1:])
        running.rename(running.with_suffix(""))
        until(lambda: server.read()[0]["status"] == "complete")
        (ended,) = server.read()
        assert ended["key"] == row["key"]
        assert ended["found"]["grown"]


@pytest.mark.long
def test_results_outlive_the_server(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "app-20240101000000-0001")
    with served(tmp_path, cache=tmp_path / "cache") as server:
        (row,) = server.read()
        done = server.analyse(row["key"])
        before = server.client.get(f"/api/applications/{row['key']}").content
        assert server.stop(signal.SIGINT) == 0
    with served(tmp_path, cache=tmp_path / "cache") as server:
        (row,) = server.read()
        assert row["found"]["worst_name"] == "report"
        assert server.client.get(f"/api/applications/{row['key']}").content == before
        assert server.client.get(f"/api/analyses/{done['id']}").json()["state"] == "done"
    with served(tmp_path, cache=tmp_path / "cache", options=("--top", "1")) as server:
        (row,) = server.read()
        assert row["found"] is None
        assert server.client.get(f"/api/applications/{row['key']}").status_code == 409


@pytest.mark.long
def test_a_remote_folder_is_served_like_a_local_one(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "app-20240101000000-0001")
    # fsspec's own name for this machine's disks: read through it, as buckets are.
    with served(f"local://{tmp_path}", cache=tmp_path / "cache") as server:
        (row,) = server.read()
        assert (row["name"], row["end_ms"]) == ("contended", 12_000)
        assert row["path"].startswith("local://")
        assert server.analyse(row["key"])["state"] == "done"


@pytest.mark.long
def test_the_settings_of_the_server_are_those_of_its_results(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "app-20240101000000-0001")
    options = ("--top", "1", "--query-by", "job", "--critical-path")
    with served(tmp_path, cache=tmp_path / "cache", options=options) as server:
        (row,) = server.read()
        done = server.analyse(row["key"])
        result = server.client.get(f"/api/analyses/{done['id']}/result").json()
        assert result["settings"]["query_by"] == "job"
        assert result["settings"]["top"] == 1
        assert result["settings"]["critical_path"] is True
