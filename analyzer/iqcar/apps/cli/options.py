"""Makes the options of commands from parameters of functions and what docstrings say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, cleandoc, signature
from typing import Annotated, Any, get_type_hints

import typer
import typer.core

from iqcar.enums import Kind, QueryBy
from iqcar.errors import UsageError

SHARED = """
paths : PATH
    Event logs: files, folders (every application in them), globs, eventlog_v2_* folders, zips, URLs
    (s3a://, gs://, abfs://, hdfs://), or a History Server (http://host:18080/history/APP).
logs : PATH
    Event logs: files, folders (every application in them), globs, eventlog_v2_* folders, zips, URLs
    (s3a://, gs://, abfs://, hdfs://), or a History Server (http://host:18080/history/APP). Default:
    where Spark writes them, as spark.eventLog.dir of its spark-defaults.conf says, else
    /tmp/spark-events.
query_by
    What counts as one query.
critical_path
    Look only at stages on each query's critical path.
topics
    Look for causes of stragglers that recur in many stages, too (`iqcar topics`); they shape rules.
    By default where 20 stages have stragglers.
advice : FILE
    Kinds of advice of your own, in the format of rules/advice_kinds.json.
target : QUERY
    Query to analyse: its id, name or fingerprint (`iqcar queries` lists them). Can be given several
    times; by default the most slowed-down queries.
samples : FILE
    Samples of hosts outside Spark (`iqcar sample`), joined by host name and time. Can be given
    several times.
json : FILE|-
    Write the result as JSON (`iqcar schema` describes it).
all_sources
    Name all sources of a query's lost time, not only the 20 largest: time, memory and result then
    grow with the square of the number of concurrent queries.
all_rules
    Keep scheduler rules that are predicted to do more harm than good.
master : URL
    Master to start an application on for --on-spark, as of spark-submit; by default that of Spark's
    own settings, else local[*].
by : user|pool|session|application|PROPERTY
    Group victims and sources by whom queries belong to: the user, the scheduler pool, the session
    of Spark Connect or the SQL Thrift server, the name of the application, or any Spark property,
    such as spark.yarn.queue; on Databricks notebook, workflow, workflow-run, or tag:NAME of a tag
    of the cluster.
store : STORE
    A folder, or a URL (s3a://, gs://, abfs://, hdfs://), that holds the store.
recall : --store STORE
    A store (`iqcar history`): what earlier runs in it told of these queries and hosts counts as
    likely before these logs tell.
curves : FILE
    What `iqcar-lab experiment` measured of these queries' own rates: surer than what a store tells.
yarn : URL
    A resource manager (http://HOST:8088), which is only asked: how long applications waited before
    they had a log, in which queue, and who held containers meanwhile. A token goes in
    IQCAR_HTTP_TOKEN.
most : --top 1..100000
    How many rows to show.
force
    Overwrite files that exist.
"""
"""What options are that several commands have, by the name of their parameter."""

GROUPS = {
    "Output": "json rules html out force full title show",
    "Method": "query_by critical_path topics advice samples all_sources all_rules previous by"
    " on_spark master threshold confidence recall curves yarn",
}
"""Options that the help shows under a title of their own, by parameter, where there are many."""
_GROUP_OF = {name: title for title, names in GROUPS.items() for name in names.split()}


@dataclass(frozen=True)
class Diagnosing:
    """How queries are diagnosed.

    Attributes
    ----------
    top : 1..1000
        How many targets, sources, paths and rules to show.
    """

    top: int = 5
    query_by: QueryBy = QueryBy.SQL
    critical_path: bool = False


_SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+)(?: : (.+))?\n((?:    .+(?:\n|\Z))+)", re.MULTILINE)
_RANGE = re.compile(r"([\d.]+?)\.\.([\d.]*)")

Described = dict[str, tuple[str, str]]
"""How each option is written, and what it is for, by the name of its parameter."""


def split_doc(doc: str | None) -> tuple[str, Described]:
    """Split a docstring into what it says of the whole, and of each parameter."""
    whole, *section = _SECTION.split(cleandoc(doc or ""), maxsplit=1)
    found = {
        name: (how or "", " ".join(text.split()))
        for name, how, text in _ENTRY.findall("".join(section))
    }
    return whole.rstrip(), found


_SHARED = split_doc(f"Parameters\n-\n{SHARED.strip()}")[1]


@dataclass(frozen=True)
class Declared:
    """What one parameter of a command stands for: itself, or the fields of its dataclass."""

    options: tuple[Parameter, ...]
    group: Any = None

    def take(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the command is called with, of what was given."""
        values = {one.name: given[one.name] for one in self.options}
        return {name: self.group(**values)} if self.group else values


def options_of(function: Any) -> dict[str, Declared]:
    """Return the arguments and options that each parameter of a function stands for.

    A parameter that can be given by position is an argument, others are options; a dataclass
    stands for the options that are its fields. How an option is written stands in the docstring
    after its name, as far as it does not follow from it: ``--flag``, ``METAVAR``, ``$VARIABLE`` of
    the environment, bounds such as ``1..1000``.
    """
    described = _SHARED | split_doc(function.__doc__)[1]
    found = {}
    for name, one in signature(function, eval_str=True).parameters.items():
        if is_dataclass(one.annotation):
            found[name] = Declared(tuple(_fields(one.annotation)), one.annotation)
        else:
            found[name] = Declared((make_option(one, described),))
    return found


def _fields(group: Any) -> Iterator[Parameter]:
    kinds = get_type_hints(group, include_extras=True)
    described = dict(_SHARED)
    for base in reversed(group.__mro__):
        described |= split_doc(base.__doc__)[1]
    for one in fields(group):
        default = Parameter.empty if one.default is MISSING else one.default
        kind = kinds[one.name]
        parameter = Parameter(one.name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        yield make_option(parameter, described)


def make_option(one: Parameter, described: Described = _SHARED) -> Parameter:
    """Make the argument or option of one parameter."""
    if hasattr(one.annotation, "__metadata__"):  # it says itself what it is
        return one.replace(kind=Parameter.KEYWORD_ONLY)
    how, text = described.get(one.name, ("", ""))  # python -OO has no docstrings
    words, kind = how.split(), one.annotation
    metavar = next((word for word in words if word[0] not in "-$" and not _RANGE.match(word)), None)
    if isinstance(kind, type) and issubclass(kind, Kind):
        text += f" {choices(kind)}."
    if one.kind is not Parameter.KEYWORD_ONLY:
        said: Any = typer.Argument(metavar=metavar, help=text, show_default=False)
    else:
        flags = [word for word in words if word.startswith("--")]
        if not flags and (one.default is False or one.name.endswith("_")):
            flags = ["--" + one.name.rstrip("_").replace("_", "-")]
        variable = next((word[1:] for word in words if word.startswith("$")), None)
        bounds = [_RANGE.fullmatch(word) for word in words if _RANGE.match(word)]
        low, high = map(_number, bounds[0].groups() if bounds and bounds[0] else ("", ""))
        said = typer.Option(
            *flags,
            metavar=metavar,
            help=text,
            envvar=variable,
            min=low,
            max=high,
            rich_help_panel=_GROUP_OF.get(one.name),
        )
    return one.replace(annotation=Annotated[kind, said], kind=Parameter.KEYWORD_ONLY)


def _number(text: str) -> int | float | None:
    return float(text) if "." in text else int(text) if text else None


def choices(kind: type[Kind]) -> str:
    """Return the values of a kind with their sentences, for the help of an option."""
    return "; ".join(f"{k.value}: {_within(k.sentence[:-1])}" for k in kind)


def _within(sentence: str) -> str:
    """Return a sentence as the part of another one."""
    name = sentence[:2].isalpha() and sentence[:2].isupper()
    return sentence if name else sentence[0].lower() + sentence[1:]


def check_master(master: str, on_spark: bool) -> None:
    """Raise :class:`~iqcar.errors.UsageError` if --master has no --on-spark."""
    if master and not on_spark:
        raise UsageError("goes with --on-spark only", "--master")


MANY = 9
"""Options from which they are shown in groups: as many can be looked through at once."""


class Grouped(typer.core.TyperCommand):
    """A command whose help shows its options under the titles of ``GROUPS``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, the untitled ones first."""
        groups: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is None:
                continue
            titled = getattr(one, "rich_help_panel", None) if len(self.params) >= MANY else None
            kind = "Arguments" if one.param_type_name == "argument" else titled or "Options"
            groups.setdefault(kind, []).append(record)
        for title in ("Arguments", "Options", *GROUPS):
            if groups.get(title):
                with formatter.section(title):
                    formatter.write_dl(groups[title])
