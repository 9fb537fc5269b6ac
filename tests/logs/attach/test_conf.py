"""`iqcar conf`: every form says the same, survives its reader, and fails in one clear line."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from iqcar.errors import IqcarError, UsageError
from iqcar.logs.attach.spark_conf import JAR, LISTENER, PLUGIN, SparkConf, listener_jar, spark_url
from tests.conftest import REPO
from tests.support.command import iqcar

ODD_FOLDERS = ["with a space", "é", "$HOME", "don't", 'a"b', "a;b&c", "#1"]
FOLDERS_OF_NO_JAR = ["a,b", "[x]", "{y}", "100%", "q?", "*"]


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    """Something that looks like a jar; Spark does not read it here."""
    path = tmp_path / JAR
    with zipfile.ZipFile(path, "w"):
        pass
    return path


def conf_of_flags(words: list[str]) -> dict[str, str]:
    """Settings of spark-submit flags."""
    assert words[0] == "--jars"
    assert set(words[2::2]) == {"--conf"}
    return {"spark.jars": words[1], **dict(word.split("=", 1) for word in words[3::2])}


def conf_of_builder(source: str) -> dict[str, str]:
    """Settings of Python code, read as Python does."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    pairs = [[ast.literal_eval(a) for a in call.args] for call in calls if call.args]
    return dict(pairs)


@pytest.mark.parametrize("folder", ["plain", *ODD_FOLDERS])
def test_all_forms_hold_the_same_settings_wherever_the_jar_is(folder: str, tmp_path: Path) -> None:
    jar = tmp_path / folder / JAR
    jar.parent.mkdir()
    jar.touch()
    conf = SparkConf(str(jar), log_dir=str(tmp_path / folder))
    settings = conf.settings()
    assert conf_of_flags(conf.flags().split()) == settings
    assert conf_of_builder(conf.pyspark()) == settings
    assert dict(line.split(maxsplit=1) for line in conf.properties().splitlines()) == settings
    (export, assignment) = shlex.split(conf.shell())
    name, _, value = assignment.partition("=")
    assert (export, name) == ("export", "PYSPARK_SUBMIT_ARGS")
    *words, last = shlex.split(value)
    assert (conf_of_flags(words), last) == (settings, "pyspark-shell")


@pytest.mark.parametrize("folder", FOLDERS_OF_NO_JAR)
def test_a_path_that_spark_cannot_load_a_jar_from_is_refused(folder: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Spark loads no jar with .*; copy it elsewhere"):
        SparkConf(str(tmp_path / folder / JAR)).settings()


@pytest.mark.parametrize("folder", ["plain", *ODD_FOLDERS, *FOLDERS_OF_NO_JAR])
def test_rules_are_named_wherever_they_are(folder: str, tmp_path: Path) -> None:
    rules = tmp_path / folder / "rules.json"
    value = SparkConf("/a.jar", rules=str(rules)).settings()["spark.iqcar.rules"]
    assert value in (str(rules), rules.as_uri())
    assert SparkConf("/a.jar", rules="hdfs:///r.json").settings()["spark.iqcar.rules"] == (
        "hdfs:///r.json"
    )
    assert "spark.iqcar.rules" not in SparkConf("/a.jar").settings()


def test_rules_that_are_not_there_are_refused(jar: Path, tmp_path: Path) -> None:
    done = iqcar("conf", "--jar", jar, "--apply-rules", tmp_path / "absent.json")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no such file" in done.stderr
    (tmp_path / "rules.json").write_text("{}")
    done = iqcar("conf", "--jar", jar, "--apply-rules", tmp_path / "rules.json")
    assert f"--conf spark.iqcar.rules={tmp_path / 'rules.json'}" in done.stdout


@pytest.mark.parametrize("folder", FOLDERS_OF_NO_JAR)
def test_a_folder_for_logs_may_have_any_name(folder: str, tmp_path: Path) -> None:
    settings = SparkConf("/a.jar", log_dir=str(tmp_path / folder)).settings()
    assert settings["spark.eventLog.dir"] == (tmp_path / folder).as_uri()


def test_the_line_of_flags_reaches_a_command_unchanged(tmp_path: Path) -> None:
    conf = SparkConf(str(tmp_path / "a b" / JAR), log_dir=str(tmp_path / "l*g"))
    script = 'printf "%s\\n" $(cat "$0")'
    line = tmp_path / "line"
    line.write_text(conf.flags())
    shown = subprocess.run(["bash", "-c", script, line], capture_output=True, text=True).stdout
    assert shown.splitlines() == conf.submit_flags()


def test_the_default_is_one_line_with_plugin_listener_and_event_log(jar: Path) -> None:
    done = iqcar("conf", "--jar", jar, "--log-dir", jar.parent)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert conf_of_flags(done.stdout.split()) == {
        "spark.jars": str(jar),
        "spark.plugins": PLUGIN,
        "spark.extraListeners": LISTENER,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": jar.parent.as_uri(),
    }


def test_what_the_job_already_has_stays_in_the_lists(jar: Path) -> None:
    own = ["--with-jars", "hdfs:///a.jar,/b.jar", "--with-plugins", "x.P, y.Q"]
    more = ["--with-listeners", "z.L", "--log-dir", jar.parent]
    settings = conf_of_flags(iqcar("conf", "--jar", jar, *own, *more).stdout.split())
    assert settings["spark.jars"] == f"hdfs:///a.jar,/b.jar,{jar}"
    assert settings["spark.plugins"] == f"x.P,y.Q,{PLUGIN}"
    assert settings["spark.extraListeners"] == f"z.L,{LISTENER}"


def test_without_the_listener_its_setting_is_left_out(jar: Path) -> None:
    done = iqcar("conf", "--jar", jar, "--no-listener", "--properties", "--log-dir", jar.parent)
    assert "extraListeners" not in done.stdout
    assert PLUGIN in done.stdout


def test_a_url_is_handed_on_as_it_is() -> None:
    done = iqcar("conf", "--jar", "s3a://bucket/iqcar.jar", "--log-dir", "hdfs:///logs")
    settings = conf_of_flags(done.stdout.split())
    assert settings["spark.jars"] == "s3a://bucket/iqcar.jar"
    assert settings["spark.eventLog.dir"] == "hdfs:///logs"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--jar", "nowhere.jar"], "nowhere.jar: no such file; write local:/"),
        (["--jar", "s3a://b/a b.jar"], "cannot hold ' '; write it as %20"),
        (["--jar", "s3a://b/*.jar"], "'*' does not survive the shell's $(...); use --properties"),
        (["--pyspark", "--shell"], "only one of --pyspark, --shell and --properties"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(arguments: list[str], said: str) -> None:
    done = iqcar("conf", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_a_folder_for_logs_that_is_missing_is_refused(jar: Path, tmp_path: Path) -> None:
    done = iqcar("conf", "--jar", jar, "--log-dir", tmp_path / "not yet")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such folder, and Spark does not create it" in done.stderr
    assert done.stderr.count("\n") == 1
    elsewhere = iqcar("conf", "--jar", jar, "--log-dir", f"file://{tmp_path}/elsewhere")
    assert elsewhere.returncode == 0
    assert f"spark.eventLog.dir=file://{tmp_path}/elsewhere" in elsewhere.stdout


def test_the_jar_of_an_installed_package_comes_before_the_built_one(tmp_path: Path) -> None:
    package = tmp_path / "analyzer" / "iqcar"
    built = tmp_path / "listener" / "target" / JAR
    shipped = package / "data" / JAR
    for path in (built, shipped):
        path.parent.mkdir(parents=True)
        path.touch()
    assert listener_jar(package) == shipped
    shipped.unlink()
    assert listener_jar(package) == built


def test_a_missing_jar_names_the_command_that_builds_it(tmp_path: Path) -> None:
    package = tmp_path / "analyzer" / "iqcar"
    with pytest.raises(IqcarError, match=r"has no iqcar-listener\.jar; install iqcar where mvn"):
        listener_jar(package)
    (tmp_path / "listener").mkdir()
    (tmp_path / "listener/pom.xml").touch()
    with pytest.raises(IqcarError, match=r"run .*scripts/build_listener"):
        listener_jar(package)


def test_a_relative_path_becomes_absolute_and_an_empty_one_stays() -> None:
    assert spark_url("logs", always=True) == (Path.cwd() / "logs").as_uri()
    assert spark_url("") == ""


def test_a_value_that_no_form_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match=r"spark\.plugins cannot hold ' '"):
        SparkConf("/a.jar", plugins=["x y"]).settings()


def test_the_classes_named_are_the_jar_s() -> None:
    sources = REPO / "listener" / "src" / "main" / "java"
    for name in (PLUGIN, LISTENER):
        assert (sources / (name.replace(".", "/") + ".java")).is_file()


def test_where_spark_writes_its_logs_is_read_from_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iqcar.logs.attach.spark_conf import configured_log_dir

    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert configured_log_dir() is None
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "spark-defaults.conf"
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert configured_log_dir() is None
    for line in ("spark.eventLog.dir   file:///x=1", " spark.eventLog.dir=file:///x=1 "):
        file.write_text(f"# spark.eventLog.dir /no\nspark.eventLog.dirs /no\n{line}\n", "utf-8")
        assert configured_log_dir() == ("file:///x=1", str(file))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert configured_log_dir() is None


def test_on_a_terminal_it_says_what_to_expect_in_the_log_and_elsewhere_it_is_silent(
    jar: Path, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "iqcar", "conf", "--jar", jar, "--log-dir", tmp_path]
    master, terminal = os.openpty()
    shown = subprocess.run(words, stdout=subprocess.PIPE, stderr=terminal, check=True)
    os.close(terminal)
    said = os.read(master, 10_000).decode()
    os.close(master)
    assert "KB a task" in said and "1 MB a minute" in said
    silent = subprocess.run(words, capture_output=True, check=True)
    assert (silent.stdout, silent.stderr) == (shown.stdout, b"")
