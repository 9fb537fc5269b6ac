"""Topics as text on a terminal: what recurs, in which stages and queries, and what to do."""

from __future__ import annotations

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from iqcar.base.units import duration, percent, printable, resource_name, short
from iqcar.causes.topics.topic_counts import coverage, query_mixtures
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary.topics import TopicName
from iqcar.show.json.straggler_links import blamed_words
from iqcar.show.json.topics import names_of
from iqcar.show.terminal.layout import (
    indented,
    plain_table,
    print_doubts,
    print_part,
    terminal,
)
from iqcar.show.terminal.stragglers import WHAT_TO_DO
from iqcar.show.terminal.topic_section import keywords, mixture_words, topic_table


def print_topics(found: Topics, top: int, names: str = "", console: Console | None = None) -> None:
    """Print topics, the stages and queries that have them, their evidence, and advice."""
    console = console or terminal()
    named = names_of(found, names)
    console.print(Text(printable(_headline(found)), style="bold"))
    if len(named):
        title = "Topics: what keeps making tasks slow"
        print_part(console, title, topic_table(found, named, None))
        if len({one.name for one in named}) < len(named):
            print_part(console, "By name", _coverage_table(found, named))
        print_part(console, "Stages, the most delayed first", _stage_table(found, named, top))
        if (found.jobs["query"] >= 0).any():
            print_part(console, "Queries", _query_table(found, named, top))
        if len(found.sources):
            print_part(console, "Who iQCAR blames", _source_table(found, named, top))
        _evidence(found, console)
        _advice(named, console)
    print_doubts(found.doubts, console)
    console.print()


def _headline(found: Topics) -> str:
    where = ", ".join(dict.fromkeys(found.labels.app(app) for app in found.jobs["app"]))
    if found.reason:
        return f"No topics. {found.reason}"
    jobs = len(found.jobs)
    with_one = found.mixtures["job"].nunique()
    return (
        f"{len(found.topics)} topics explain {with_one:,} of {jobs:,} stages with stragglers"
        f"{f' ({short(where, 60)})' if where else ''}"
    )


def _coverage_table(found: Topics, named: list[TopicName]) -> Table:
    table = plain_table("name", ">topics", ">coverage", ">dominant", ">mean share")
    for row in coverage(found, [one.name for one in named]).to_dict("records"):
        table.add_row(
            short(row["name"], 40),
            str(len(row["topics"])),
            percent(row["coverage"]),
            percent(row["dominant_coverage"]),
            percent(row["mean_share"]),
        )
    return table


def _stage_table(found: Topics, named: list[TopicName], top: int) -> Table:
    table = plain_table("stage", ">stragglers", ">of tasks", ">over the median", "mixture")
    order = found.jobs.sort_values(["delay_ms", "stage"], ascending=[False, True]).head(top)
    for number, job in zip(order.index.tolist(), order.to_dict("records"), strict=True):
        mine = found.mixtures[(found.mixtures["job"] == number).to_numpy()]
        shares = dict(zip(mine["topic"].tolist(), mine["share"].tolist(), strict=True))
        table.add_row(
            short(found.labels.stage(job["stage"]), 44),
            f"{job['stragglers']:,}",
            f"{job['tasks']:,}",
            duration(job["delay_ms"]),
            Text(mixture_words(shares, named) or "none of the topics"),
        )
    return table


def _query_table(found: Topics, named: list[TopicName], top: int) -> Table:
    table = plain_table("query", ">stragglers", "mixture")
    frame = query_mixtures(found)
    for query in list(dict.fromkeys(frame["query"].tolist()))[:top]:
        mine = frame[(frame["query"] == query).to_numpy()]
        shares = dict(zip(mine["topic"].tolist(), mine["share"].tolist(), strict=True))
        number = found.labels.query_id(query).rpartition("/")[2]
        table.add_row(
            short(f"{short(found.labels.query(query), 32)} {number}", 44),
            f"{int(mine['stragglers'].iloc[0]):,}",
            Text(mixture_words(shares, named)),
        )
    return table


def _source_table(found: Topics, named: list[TopicName], top: int) -> Table:
    table = plain_table("stage", "topic", "resource", ">lost", "blamed, where and while it had it")
    called = [named[int(topic)].name for topic in found.sources["topic"]]
    sources = found.sources.assign(called=called)
    lost = sources.groupby(["job", "called"], sort=True)["lost_ms"].sum()
    for job, name in lost.sort_values(ascending=False, kind="stable").head(top).index:
        rows = sources[((sources["job"] == job) & (sources["called"] == name)).to_numpy(bool)]
        table.add_row(
            short(found.labels.stage(int(found.jobs["stage"].iloc[job])), 44),
            short(name, 40),
            resource_name(rows["resource"].iloc[0]),
            duration(float(rows["lost_ms"].sum())),
            Text(printable(blamed_words(found, rows))),
        )
    return table


def _evidence(found: Topics, console: Console) -> None:
    checked = found.validation
    console.print()
    if len(checked):
        console.print(
            indented(
                f"Of {len(checked):,} keywords of stages' topics, stragglers differ from other "
                f"tasks as the topic says in {percent(float(checked['agrees'].mean()))} "
                "(Wilcoxon p < 0.05, quartiles)"
            )
        )
    if found.rejected:
        listed = "; ".join(f"{keywords(words)} by {model}" for model, words in found.rejected[:4])
        more = len(found.rejected) - 4
        rest = f"; {more} more" if more > 0 else ""
        console.print(indented(f"Left out, found by one model only: {listed}{rest}"))


def _advice(named: list[TopicName], console: Console) -> None:
    once = {one.name: one for one in named if one.advice}
    said = [f"- {one.name}: {one.sentence} {one.advice}" for one in once.values()]
    if said:
        advice = Group(*(Text(printable(line)) for line in said))
        print_part(console, WHAT_TO_DO, advice)
