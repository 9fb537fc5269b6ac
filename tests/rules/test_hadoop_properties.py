"""A file of the CapacityScheduler is read as Hadoop's own Configuration reads it, or refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iqcar.errors import IqcarError
from iqcar.rules.queue_files import PREFIX, read_capacity_file
from tests.support.hadoop_jars import SPARK_JARS

READER = Path(__file__).resolve().parents[1] / "support" / "ReadConfiguration.java"
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


@pytest.mark.long
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
