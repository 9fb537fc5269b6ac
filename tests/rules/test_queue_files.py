"""Files of YARN's schedulers: what they hold, edits in place, and what is refused."""

from __future__ import annotations

import pytest

from iqcar.base.files.xml_text import MAX_BYTES
from iqcar.errors import IqcarError
from iqcar.rules.queue_files import PREFIX, read_capacity_file, read_fair_file
from tests.support.hostile_texts import least_cost

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
    queues = {one.path: one for one in file.setup(8).queues}
    shares = {path: one.guaranteed for path, one in queues.items()}
    assert shares == pytest.approx({"root.etl": 0.6, "root.adhoc": 0.2, "root.default": 0.2})
    assert queues["root.etl"].maximum == 0.5
    cores = read_fair_file(FAIR.replace(b"50%", b"8192 mb, 2 vcores"), "f.xml")
    assert cores.maximum("root.etl", 8) == 0.25


@pytest.mark.parametrize(
    "text",
    [b"16384 mb, 4 vcores", b"4 vcores, 16384 mb", b"memory-mb=16384, vcores=4", b"16384, 4"],
)
def test_a_maximum_counts_in_cores_however_it_stands(text: bytes) -> None:
    file = read_fair_file(FAIR.replace(b"50%", text), "f.xml")
    assert file.maximum("root.etl", 16) == 0.25


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
