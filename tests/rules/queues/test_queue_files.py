"""Files of queues for YARN: written, read by Hadoop's rules, and compiled for a cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from iqcar.base.files.xml_text import MAX_BYTES
from iqcar.errors import IqcarError
from iqcar.rules.queues.capacity_file import PREFIX, read_capacity_file
from iqcar.rules.queues.fair_file import read_fair_file
from iqcar.rules.queues.queue_setup import Capacity, Unit
from tests.support.command import iqcar
from tests.support.hadoop_jars import SPARK_JARS
from tests.support.hostile_texts import least_cost
from tests.support.shared_cluster_logs import YARN, whole_cluster_held

CAPACITY = b"""<?xml version="1.0"?>
<!-- kept as it is -->
<configuration>
    <property><name>yarn.scheduler.capacity.root.queues</name><value>default, etl</value></property>
    <property>
        <name>yarn.scheduler.capacity.root.default.capacity</name>
        <value>60</value> <!-- most -->
    </property>
    <property>
        <name>yarn.scheduler.capacity.root.etl.capacity</name>
        <value>40</value>
    </property>
    <property><name>yarn.scheduler.capacity.root.etl.queues</name><value>a,b</value></property>
    <property><name>yarn.scheduler.capacity.root.etl.a.capacity</name><value>25</value></property>
    <property><name>yarn.scheduler.capacity.root.etl.b.capacity</name><value>75</value></property>
    <property><name>other</name><value/></property>
</configuration>
"""
FAIR = b"""<?xml version="1.0"?>
<allocations>
  <queue name="etl">
    <weight>3.0</weight>
    <maxResources>50%</maxResources>
  </queue>
  <queue name="adhoc"/>
</allocations>
"""


def test_shares_of_queues_are_products_along_their_path() -> None:
    queues = {one.path: one for one in read_capacity_file(CAPACITY, "c.xml").setup().queues}
    shares = {path: one.guaranteed for path, one in queues.items()}
    expected = {"root.default": 0.6, "root.etl.a": 0.1, "root.etl.b": 0.3}
    assert shares == pytest.approx(expected)
    assert queues["root.default"].user_factor == 1.0


def test_an_edit_keeps_all_other_bytes() -> None:
    file = read_capacity_file(CAPACITY, "c.xml")
    values = {
        "root.queues": "default,etl,new",
        "root.default.capacity": "40",
        "root.new.capacity": "20",
    }
    edited = file.edited(values)
    before, after = CAPACITY.splitlines(), edited.content.splitlines()
    gone = [line for line in before if line not in after]
    assert len(gone) == 2
    assert b"        <value>40</value> <!-- most -->" in after
    assert edited.capacity("root.new") == 20
    assert [*edited.properties][-1] == f"{PREFIX}root.new.capacity"
    assert file.edited({"root.default.capacity": "60"}).content == CAPACITY


def test_an_edit_that_breaks_a_file_is_not_blamed_on_it() -> None:
    sums = "c.xml: iqcar's own change .* queues of root sum to 70 %, not 100 %; the file was right"
    with pytest.raises(IqcarError, match=sums):
        read_capacity_file(CAPACITY, "c.xml").edited({"root.default.capacity": "30"})
    with pytest.raises(IqcarError, match=r"f.xml: iqcar's own change .* the file was right"):
        read_fair_file(FAIR, "f.xml").edited({"root.etl": {"weight": "heavy"}})


@pytest.mark.slow
def test_eight_times_the_pieces_of_a_text_cost_about_eight_times_as_much() -> None:
    """In proportion 8 times, give or take the neighbours on the machine; its square is 64 times."""

    def read(pieces: str) -> None:
        content = CAPACITY.replace(b"<value/>", f"<value>{pieces}</value>".encode())
        assert len(read_capacity_file(content, "c.xml").properties["other"]) == len(pieces) // 5

    few = MAX_BYTES // 50
    assert least_cost(read, "&#65;" * (8 * few)) < 24 * least_cost(read, "&#65;" * few)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><configuration>&b;</configuration>", "document type"),
        (b"<configuration>", "is not XML"),
        (b"<html/>", "not <configuration>"),
        (b"<configuration/>", "root.queues"),
        (b"\xff\xfe", "is not in UTF-8"),
        (b"<a>" * 100 + b"</a>" * 100, "64 levels"),
        (b" " * (4 * 2**20 + 1), "larger than 4 MB"),
        (CAPACITY.replace(b">60<", b">60w<"), "not a percentage"),
        (CAPACITY.replace(b">60<", b">nan<"), "not a percentage"),
        (CAPACITY.replace(b">60<", b">-60<"), "sum to -20 %"),
        (CAPACITY.replace(b"default, etl", b"etl,etl"), "twice"),
    ],
)
def test_what_is_no_such_file_is_refused_in_one_line(content: bytes, message: str) -> None:
    with pytest.raises(IqcarError, match=message) as raised:
        read_capacity_file(content, "c.xml")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("c.xml: ")


def test_weights_and_maxima_of_an_allocation_file() -> None:
    file = read_fair_file(FAIR, "f.xml")
    queues = {one.path: one for one in file.setup(Capacity(8)).queues}
    shares = {path: one.guaranteed for path, one in queues.items()}
    assert shares == pytest.approx({"root.etl": 0.6, "root.adhoc": 0.2, "root.default": 0.2})
    assert queues["root.etl"].maximum == 0.5
    cores = read_fair_file(FAIR.replace(b"50%", b"8192 mb, 2 vcores"), "f.xml")
    assert cores.maximum("root.etl", Capacity(8)) == 0.25
    assert cores.maximum("root.etl", Capacity(32768, Unit.MB)) == 0.25


@pytest.mark.parametrize(
    "text",
    [b"16384 mb, 4 vcores", b"4 vcores, 16384 mb", b"memory-mb=16384, vcores=4", b"16384, 4"],
)
def test_a_maximum_counts_in_the_unit_of_the_cluster(text: bytes) -> None:
    file = read_fair_file(FAIR.replace(b"50%", text), "f.xml")
    assert file.maximum("root.etl", Capacity(16)) == 0.25
    assert file.maximum("root.etl", Capacity(32768, Unit.MB)) == 0.5


def test_queues_of_an_allocation_file_are_edited_and_added() -> None:
    edited = read_fair_file(FAIR, "f.xml").edited(
        {
            "root.etl": {"weight": "1", "maxResources": "50%"},
            "root.adhoc": {"weight": "2"},
            "root.<&>": {"weight": "4"},
        }
    )
    weights = {path: edited.weight(path) for path in edited.elements}
    assert weights == {"root.etl": 1, "root.adhoc": 2, "root.<&>": 4, "root.default": 1}
    assert b"<maxResources>50%</maxResources>" in edited.content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<configuration/>", "not <allocations>"),
        (FAIR.replace(b"adhoc", b"etl"), "twice"),
        (FAIR.replace(b"3.0", b"heavy"), "no number"),
    ],
)
def test_what_is_no_allocation_file_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(IqcarError, match=message):
        read_fair_file(content, "f.xml")


READER = Path(__file__).resolve().parents[2] / "support" / "ReadConfiguration.java"
QUEUES = f"""
<property name="{PREFIX}root.queues" value="b"/>
<property><name>{PREFIX}root.b.capacity</name><value>100</value></property>"""
A = "<property><name>a</name><value>1</value>{}</property>"
TWO = '<property name="a" value="2"/>'
READ = (
    '<property name="a" value="1"/>',
    '<property name="a" value="1"><value>2</value></property>',
    '<property name="a" value="1"><name>b</name></property>',
    '<property name="a" value="1"><name/><value/></property>',
    "<property><value>1</value><name>a</name></property>",
    "<property><name>a</name><value>1</value><value>2</value></property>",
    "<property><name>a</name><value>1</value><value/></property>",
    A + TWO,
    A + "<property><name>a</name><value></value></property>",
    A + "<property><name>a</name><value> </value></property>",
    A + '<property name="a" value=""/>',
    A.format("<final>true</final>") + TWO,
    A.format("<final> true </final>") + TWO,
    A.format("<final>TRUE</final>") + TWO,
    A.format("<final>true</final><final/>") + TWO,
    '<property name="a" value="1" final="true"/>' + TWO,
    '<property name="a" value="1" final="true"><final>false</final></property>' + TWO,
    '<property name="a" final="true"/>' + TWO,
    '<property name=" a " value=" 1 "/>',
    "<property><name> a </name><value> 1\n</value></property>",
    "<property><name>\u00a0a</name><value>1\u00a0</value></property>",
    "<property><name> </name><value>1</value></property>",
    "<property><value>1</value></property>",
    "<property><name>a</name><value><![CDATA[<1]]>2<!-- x -->3&#52;&amp;</value></property>",
    '<property name="a" value="1\n2&#10;3"/>',
    A.format("<source>x</source><description>as <b>it</b> is</description>"),
    "<other><name>a</name></other>",
)
REFUSED = {
    '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="a.xml"/>': "included",
    '<include href="a.xml"/>': "included",
    "<x>" + TWO + "</x>": "<property> is not read",
    A.format("<description><value>2</value></description>"): "<value> is not read",
    "<property><name>a</name><value>1<b>2</b></value></property>": "<b> is not read",
    '<property xmlns:p="x" p:name="a" value="1"/>': "<property> is not read",
    '<p:property xmlns:p="x" name="a" value="1"/>': "<p:property> is not read",
    f'<property name="{PREFIX}root.b.priority" value="${{x}}"/>': "variable",
}


def whole(lines: str) -> bytes:
    return f"<configuration>\n{lines}{QUEUES}</configuration>".encode()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("java"), reason="needs a JDK")
def test_properties_are_those_that_hadoop_reads(tmp_path: Path) -> None:
    cases = [case.replace("{}", "") for case in READ]
    for number, case in enumerate(cases):
        (tmp_path / f"{number}.xml").write_bytes(whole(case))
    words = ["java", "-cp", f"{SPARK_JARS}/*", str(READER)]
    done = subprocess.run(
        [*words, *(f"{number}.xml" for number in range(len(cases)))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        pairs = [pair.split("=") for pair in line.split()[1:]]
        expected = {bytes.fromhex(k).decode(): bytes.fromhex(v).decode() for k, v in pairs}
        assert dict(read_capacity_file(whole(case), "c.xml").properties) == expected, case


@pytest.mark.parametrize("lines", REFUSED)
def test_what_hadoop_reads_and_iqcar_does_not_is_refused_with_its_line(lines: str) -> None:
    with pytest.raises(IqcarError, match=REFUSED[lines]) as raised:
        read_capacity_file(whole(lines), "c.xml")
    assert str(raised.value).startswith("c.xml, line 2: ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<property final='true' name='{}' value = '60' />", 'value = "40" />'),
        ("<property value=\"60\"\tname='{}'></property>", 'value="40"\tname='),
        ("<property name='{}' value='50'><value>60</value></property>", "<value>40</value>"),
        ("<property name='{}' value='60'><value/></property>", 'value="40"><value/>'),
        ("<property name='{}' value='60' final='true'/><property name='{}' value='9'/>", '"40"'),
    ],
)
def test_an_edit_is_made_where_the_value_counts(before: str, after: str) -> None:
    name = f"{PREFIX}root.a.capacity"
    content = f"""<configuration>
      <property name="{PREFIX}root.queues" value="a,b"/>
      {before.replace("{}", name)}
      <!-- kept --><property name="{PREFIX}root.b.capacity" value="40"/>
    </configuration>""".encode()
    file = read_capacity_file(content, "c.xml")
    edited = file.edited({"root.a.capacity": "40", "root.b.capacity": "60"})
    assert (edited.capacity("root.a"), edited.capacity("root.b")) == (40, 60)
    assert after in edited.content.decode()
    assert (
        edited.edited({"root.a.capacity": "60", "root.b.capacity": "40"}).capacity("root.a") == 60
    )
    unchanged = [line for line in content.splitlines() if b"capacity" not in line]
    assert [line for line in edited.content.splitlines() if line in unchanged] == unchanged


def test_what_is_final_without_a_value_is_left_to_the_user() -> None:
    lines = f'<property name="{PREFIX}root.b.maximum-capacity" final="true"/>'
    with pytest.raises(IqcarError, match=r"maximum-capacity is final .* set it to 50 by hand"):
        read_capacity_file(whole(lines), "c.xml").edited({"root.b.maximum-capacity": "50"})


FOR = ("rules", "compile", "--for", "yarn-capacity")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    settings = {"spark_executor_instances": "2", "spark_executor_cores": "2"}
    for number, log in enumerate(whole_cluster_held(YARN, **settings)):
        log.write(folder / str(number))
    return folder


def test_a_plan_is_written_with_how_to_apply_it(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = iqcar(*FOR, logs, "--out", out, "--json", tmp_path / "plan.json")
    assert (done.returncode, done.stdout.startswith("This plan is expected to help")) == (0, True)
    assert "+    <value>default,iqcar-morning</value>" in done.stdout
    said = json.loads((tmp_path / "plan.json").read_text())
    assert (said["outlook"], said["written"]) == ("helps", True)
    assert "root.iqcar-morning" in (out / "capacity-scheduler.xml").read_text()
    how = (out / "HOW_TO.md").read_text()
    assert "yarn rmadmin -refreshQueues" in how
    assert "--conf spark.yarn.queue=root.iqcar-morning" in how
    again = iqcar(*FOR, logs, "--out", out)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_what_would_harm_is_written_only_if_asked_for(logs: Path, tmp_path: Path) -> None:
    given = ("rules", "compile", "--for", "dynamic-allocation", logs, "--out", tmp_path / "out")
    done = iqcar(*given)
    assert done.stdout.startswith("No plan is written, each would harm")
    assert not (tmp_path / "out").exists()
    done = iqcar(*given, "--all-rules")
    assert done.stdout.startswith("Do not apply this plan")
    assert "spark.dynamicAllocation.maxExecutors=" in (tmp_path / "out" / "submit.txt").read_text()


def test_a_file_that_is_no_queues_is_refused_in_one_line(logs: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.xml"
    wrong.write_text("<!DOCTYPE a [<!ENTITY b 'c'>]><configuration/>")
    done = iqcar(*FOR, logs, "--current", wrong, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.strip().splitlines()
    assert "document type" in line


def test_several_rules_files_are_refused(tmp_path: Path) -> None:
    done = iqcar("rules", "compile", "a.json", "b.json")
    assert (done.returncode, "takes one file" in done.stderr) == (2, True)
