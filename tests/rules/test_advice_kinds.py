"""The vocabulary of advice: it fits its schema, names what exists, and can be one's own."""

from __future__ import annotations

import copy
import json
import zipfile
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest

from iqcar.errors import IqcarError
from iqcar.rules.vocabulary import (
    AdviceSetting,
    advice_kinds,
    fits,
    problem_of,
    straggler_causes,
    version_of,
)
from tests.conftest import REPO
from tests.support.advised_log import advised_log
from tests.support.command import iqcar

OURS = REPO / "rules" / "advice_kinds.json"


def ours() -> dict:
    return json.loads(OURS.read_text(encoding="utf-8"))


def test_the_vocabulary_fits_its_schema_and_covers_every_cause() -> None:
    schema = json.loads((REPO / "rules" / "advice_kinds.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(ours(), schema)
    assert problem_of(advice_kinds()) == ""
    covered = {cause for kind in advice_kinds().values() for cause in kind.causes}
    assert covered == set(straggler_causes())


@pytest.mark.slow
def test_every_setting_is_one_of_the_installed_spark() -> None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        pytest.skip("pyspark is not installed")
    kinds = advice_kinds().values()
    left = {one.name.encode() for kind in kinds for one in kind.settings}
    # One of any environment variable's name.
    left.discard(b"spark.executorEnv.OMP_NUM_THREADS")
    for jar in Path(spec.origin).parent.glob("jars/spark-*.jar"):
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                if left and name.endswith(".class"):
                    content = classes.read(name)
                    left = {setting for setting in left if setting not in content}
    assert left == set()


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("kinds",), {}, "length >= 1"),
        (("acts_on",), "pools", r"\$.acts_on"),
        (("kinds", "locks", "scope"), "cluster", r"\$.kinds\[...\].scope"),
        (("kinds", "locks", "causes"), ["lock"], r"no cause 'lock' - at `\$.kinds.locks.causes\[0"),
        (("kinds", "locks", "topics"), ["x"], r"no topic 'x' - at `\$.kinds.locks.topics\[0"),
        (("kinds", "locks", "do"), "Ask ${user}.", r"only \$host can .* `\$.kinds.locks.do`"),
        (
            ("kinds", "locks", "settings"),
            [{"name": "x", "value": "1", "why": "y"}],
            r"regex .*settings\[0\].name",
        ),
    ],
)
def test_a_broken_vocabulary_is_refused_with_the_place(
    path: tuple[str, ...], value: object, says: str, tmp_path: Path
) -> None:
    content = copy.deepcopy(ours())
    part = content
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    file = tmp_path / "kinds.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(IqcarError, match=says):
        advice_kinds(str(file))


@pytest.mark.slow
def test_ones_own_vocabulary_is_used_and_errors_are_one_line(tmp_path: Path) -> None:
    log = advised_log().write(tmp_path / "app-1")
    content = ours()
    kinds = {"our-skew": {**content["kinds"]["split-shuffle"], "do": "Ask the data team first, please, before you do anything."}}  # fmt: skip  # noqa: E501
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({**content, "kinds": kinds}), encoding="utf-8")
    done = iqcar("analyze", log, "--full", "--advice", mine)
    assert done.returncode == 0, done.stderr
    assert "our-skew" in done.stdout and "Ask the data team first" in done.stdout
    for path, says in ((tmp_path / "none.json", "cannot be read"), (log, "is no vocabulary")):
        refused = iqcar("analyze", log, "--advice", path)
        assert refused.returncode != 0 and says in refused.stderr
        assert refused.stderr.count("\n") == 1 and refused.stdout == ""


@pytest.mark.parametrize(
    ("text", "version"),
    [("3.2.1", (3, 2)), ("3.3.0-amzn-0", (3, 3)), ("4.1", (4, 1)), ("", None), ("dev", None)],
)
def test_versions_are_read_from_whatever_vendors_write(text: str, version: object) -> None:
    assert version_of(text) == version


def test_a_setting_is_for_its_versions_queries_and_master() -> None:
    setting = AdviceSetting("spark.x", "1", "why", since="3.0", until="3.2", only="sql")
    assert fits(setting, (3, 1), sql=True, local=False)
    assert not fits(setting, (2, 4), sql=True, local=False)
    assert not fits(setting, (3, 2), sql=True, local=False)
    assert not fits(setting, (3, 1), sql=False, local=False)
    # A version nobody recorded is taken for the newest.
    assert not fits(setting, None, sql=True, local=False)
    assert fits(AdviceSetting("spark.x", "1", "why"), None, sql=False, local=True)
    assert not fits(AdviceSetting("spark.x", "1", "why", only="cluster"), None, True, True)
