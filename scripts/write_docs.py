"""Write the pages and pictures of docs/ that are printed from the code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from iqcar.comparison.as_printed import PRINTED_FINDINGS
from iqcar.comparison.comparison_tables import COMPARISON_TABLES
from iqcar.comparison.structures import STRUCTURES
from iqcar.comparison.variation import VARIATION
from iqcar.demand.demand_tables import CAPACITIES, OWN_RATES
from iqcar.enums import (
    BaseModel,
    BlameKind,
    CauseEvidence,
    ChangeKind,
    CompareMethod,
    Domain,
    Evidence,
    FeatureKind,
    ImpactModel,
    InputStatus,
    LearnerSet,
    Level,
    MatchBy,
    QueryBy,
    Request,
    Resource,
    RunBy,
    SourceUsage,
    Verdict,
    WasteCause,
)
from iqcar.errors import DEBUG, ExitCode
from iqcar.history.stored_tables import STORED
from iqcar.inject.anomalies import Anomaly, Pattern
from iqcar.replay.cap_rules import AS_GOOD, SHARES
from iqcar.report.json.analyze import result_schema
from iqcar.rules.advice_rules import LARGE_KIND, LEAST_DELAY_MS, LEAST_SHARE, SMALL_KIND
from iqcar.rules.compile_pools import VICTIMS_FIRST
from iqcar.rules.slow_hosts import (
    LEAST_JOBS,
    LEAST_RATIO_STAGES,
    SLOW_STAGES_SHARE,
    SLOW_TIMES,
)
from iqcar.rules.straggler_delays import LEAST_PART_MS
from iqcar.rules.task_sizes import IDLE_SHARE, LARGE_BYTES, MANY_TASKS, SHORT_MS, START_SHARE
from iqcar.rules.vocabulary.advice_kinds import AdviceSetting, advice_kinds
from iqcar.rules.vocabulary.data_files import rule_schema
from iqcar.rules.vocabulary.lost_time import vocabulary
from iqcar.rules.vocabulary.stragglers import straggler_causes
from iqcar.rules.vocabulary.topics import topic_vocabulary
from iqcar.rules.vocabulary.waste import waste_causes
from iqcar.rules.weights import MAX_RATIO, RATIO_ERROR
from iqcar.serve.analyses import State
from iqcar.serve.loss_totals import MAX_REMEMBERED
from iqcar.serve.losses import LABEL_CHARACTERS, MOST_NAMED, MOST_OF_RESULT, NAMES
from iqcar.serve.metric_families import FAMILIES
from iqcar.serve.metrics import UNREAD
from iqcar.stragglers import (
    FEATURES,
    STRAGGLER_CAUSES,
    STRAGGLER_SOURCES,
    STRAGGLERS,
)
from iqcar.tables import SPECS, TableSpec
from iqcar.topics import (
    MIXTURES,
    STRAGGLER_TOPICS,
    TOPIC_JOBS,
    TOPIC_SOURCES,
    TOPIC_WORDS,
    TOPICS,
    VALIDATION,
)
from iqcar.waits import WAITS
from iqcar.waits.by_query import QUERY_WAITS
from iqcar.waits.phases import PHASES
from iqcar.wasted import WASTED_TASKS, WASTED_WORK

EXIT_CODES = {
    ExitCode.OK: "everything was analysed",
    ExitCode.NOTHING: "nothing could be analysed",
    ExitCode.USAGE: "the command line was wrong",
    ExitCode.PARTIAL: "analysed, but some input failed or was truncated",
    ExitCode.GATE: "`iqcar compare`: a query got slower than `--fail-on` allows",
}
BUGS = f"""\
One log that cannot be read never stops the others: its status says why, and the exit code is 3. A
bug of iqcar ends in one line, too. `iqcar --debug COMMAND`, or `{DEBUG}=1` in the environment,
prints its traceback, also that of a process which reads logs or analyses them for `iqcar serve`."""
COMPARED_TABLES = (*COMPARISON_TABLES, STRUCTURES, VARIATION, PRINTED_FINDINGS)
DEMAND_TABLES = (OWN_RATES, CAPACITIES)
STRAGGLER_TABLES = (STRAGGLERS, STRAGGLER_CAUSES, STRAGGLER_SOURCES)
TOPIC_TABLES = (
    TOPICS,
    TOPIC_WORDS,
    TOPIC_JOBS,
    MIXTURES,
    VALIDATION,
    STRAGGLER_TOPICS,
    TOPIC_SOURCES,
)
PERCENTS = ", ".join(f"{share:.0%}" for share in SHARES)
METRICS = f"""\
What `/metrics` of [`iqcar serve`](serve.md#prometheus-and-grafana) tells, in OpenMetrics 1.0 where
the client asks for it, else in Prometheus's plain text format. Times are in seconds, sizes in
bytes.

- Counters (`_total`) only grow, and begin at 0 when the server starts. An application is added
  once, when this server analyses it alone after its end; the last {MAX_REMEMBERED:,} are
  remembered. An analysis of one that still runs adds nothing. Results that were kept from an
  earlier start are not added again.
- Gauges `iqcar_kept_…` sum the results that are kept of the applications listed. They go down, too:
  results leave the folder when it is full, logs are deleted, and a running application's next
  result can find less.
- An application counts with the result of analysing it alone; results of several applications
  together are left out, or it would count twice.
- Of names, the dates, times, ids and numbers of runs are left out, so that runs of a recurring
  query are one label, and {LABEL_CHARACTERS} characters are kept.
- At most {MOST_NAMED} sources and {MOST_NAMED} victims are told apart by name, and of one
  application the {MOST_OF_RESULT} largest of each; the rest is `{NAMES[BlameKind.REST]}`, so that
  the totals by resource, by source and by victim are the same.
  The gauges tell the largest apart, at each scrape anew. The counters tell the first apart that
  come, of one application the largest first, until the server starts again: a sum that moved to
  `{NAMES[BlameKind.REST]}` would shrink.
- The name of a counter's source or victim that is new begins with its first loss, so `increase()`
  misses that one; all labels of `iqcar_lost_seconds_total` are there from the start. OpenMetrics
  also tells when each sum began (`_created`), which Prometheus uses with
  `--enable-feature=created-timestamp-zero-ingestion`.
- `iqcar_live_…` are there while somebody looks at the live page of an application; `/metrics`
  itself follows none."""
METRIC_LABELS = {
    "resource": ", ".join(f"`{one}`" for one in Resource),
    "kind": "; ".join(
        f"`{one}`: {one.sentence[0].lower()}{one.sentence[1:-1]}" for one in BlameKind
    ),
    "source": "a query's name; " + ", ".join(f"`{name}`" for name in NAMES.values()),
    "victim": f"a query's name; `{NAMES[BlameKind.REST]}`",
    "application": "an application's name; empty with a name in parentheses",
    "status": ", ".join([*(f"`{one}`" for one in InputStatus), f"`{UNREAD}`"]),
    "state": ", ".join(f"`{one}`" for one in State),
    "version": "as `iqcar --version` prints it",
}
HOW_RULES_BECOME_POOLS = f"""\
`iqcar analyze --rules FILE` and `iqcar rules compile FILE` do the same; the latter also after the
rules were edited, and writes `fairscheduler.xml`, `pools.json` and a page of lines to copy.

- Spark's FAIR scheduler offers a free slot first to pools with fewer running tasks than their
  minShare, then to the pool with the fewest running tasks for its weight. It takes no
  slot back, so a share is a proportion to the other pools that want slots at that moment.
- AGG with share 1/n: the source's pool weighs one part, and `default`, where everybody else is,
  one part for each of the other queries that ran at once at most.
- DYNP: a priority weighs that many parts, one being an ordinary query's. Victims whose priority is
  raised also get a minShare where the log tells the number of slots, together
  {VICTIMS_FIRST:.0%} of them, so that a heavy `default` pool does not delay a victim when few
  queries run. The rest stays for everybody else.
- CAP: the plugin lets tasks of the pool take at most that share of the slots there are at that
  moment, one at least. A running task keeps its slot, so no weight moves a query with long tasks
  off the slots that it took while nobody else wanted them: only a strict cap keeps some free, and
  they stand idle while nobody comes. A cap that is not strict gives idle slots away. One is
  proposed where weights do not help the victims and a cap does: of {PERCENTS} of
  the slots the mildest that gains them {AS_GOOD:.0%} of what the best does. Stock Spark and
  `fairscheduler.xml` have no caps.
- An application's own pools, where the plugin recorded them, keep mode and minShare, and divide
  what the rules leave in the proportion they had. Pools of rules work as `default` does inside:
  FIFO, unless it was FAIR.
- Weights are small whole numbers: ratios are within {RATIO_ERROR:.0%} of those asked for, and at
  most {MAX_RATIO:.0f}. A pool that wants slots gets one at least, whatever its weight: shares
  smaller than that need more slots.
- A query has one pool, with a weight and perhaps a cap. Of several rules for its weight, AGG comes
  before DYNP, then the lower rule-order counts. The `notes` say what was
  decided, and what helps where pools do not.

The plugin [watches the file](listener.md#applying-rules): what is changed there acts within two
seconds. `iqcar analyze` of such a run says under "Rules that acted" which rule did what from when
to when, and which versions of the file were not accepted and why (JSON: `acting_rules`; table:
`rule_changes`).

In PySpark, `with iqcar.query("q39b", pool="iqcar-q39b"):` names what runs inside and puts it into a
pool; with the plugin and `spark.iqcar.rules` the program stays as it is.
"""
HOW_ADVICE_IS_FOUND = f"""\
ADVICE rules are for people: no scheduler acts on them, no pool is made from them, no replay tells
what they will do. They are written from the causes of stragglers ([stragglers.md](stragglers.md)),
in the order of the time over the median that each explains. With `--topics` a reason also says how
many of the stragglers have a recurring topic that says the same. After them there is one for each
application whose executors others waited for ([blame.md](blame.md#waits-for-executors)).

- A straggler's time over its stage's median is divided among its causes: measured waits take what
  they explain, the others share the rest. Parts of less than {LEAST_PART_MS:.0f} ms do not count.
- Advice needs {LEAST_DELAY_MS / 1000:.0f} s in all, and stages that ended later for it by
  {LEAST_SHARE:.0%} of the duration of its queries: a stage ends as much later as its largest part
  says, or all parts divided by the tasks that ran at once. Where that is not reached, or not in
  enough stages, there is none.
- A host is slow if the median over its stages of the median duration there, over that elsewhere, is
  {SLOW_TIMES} or more, in {LEAST_RATIO_STAGES} stages of {LEAST_JOBS} jobs at least, and in
  {SLOW_STAGES_SHARE:.0%} of them by a tenth. Where iQCAR blames queries for most of what its
  stragglers waited for, it is busy, not slow.
- Small tasks: stages of {MANY_TASKS} tasks or more that run less than {SHORT_MS:.0f} ms each
  (median), where starting and ending them takes {START_SHARE:.0%} of their time or more.
- Large tasks: stages of fewer tasks than slots that read {LARGE_BYTES / 2**20:.0f} MB or more each
  (median), while {IDLE_SHARE:.0%} of the slots or more had nothing to do, of any query.
- Only settings are listed that the application's Spark has and that its queries and master can use.
  What it had set is not in the tables: see what is set before you change it.

The kinds are in `rules/advice_kinds.json` (`rules/advice_kinds.schema.json`); `iqcar analyze
--advice FILE` takes others in the same format.
"""
DOCS = Path(__file__).resolve().parent.parent / "docs"
PRINTED = "<!-- Printed by scripts/write_docs.py; edit the code, then run it again. -->\n"


def tables_page() -> str:
    """Every column of every table."""
    lines = [
        "# Tables",
        PRINTED,
        "`iqcar.read` returns these pandas frames; the tables from `waits` on are derived",
        "from them. An integer column with unit `row` holds a row number",
        "of the table it is named after; −1 means none. Unknown numbers are NaN, never zero.",
    ]
    derived = (WAITS, PHASES, QUERY_WAITS, *DEMAND_TABLES, WASTED_TASKS, WASTED_WORK, FEATURES)
    for spec in (*SPECS, *derived, *STRAGGLER_TABLES, *TOPIC_TABLES, *COMPARED_TABLES):
        lines += _columns(spec)
    return "\n".join(lines) + "\n"


def stored_tables_page() -> str:
    """Every column of every table of a store."""
    lines = [
        "# Stored tables",
        PRINTED,
        "A [store](history.md) keeps these tables as Parquet files, with `cluster` and `day` in",
        "their paths; `day` is a month in past months. Rows of `applications` whose `batch` is the",
        "last of their application count, and of the other tables those with the same `batch`.",
    ]
    for spec in STORED:
        lines += _columns(spec)
    return "\n".join(lines) + "\n"


def _columns(spec: TableSpec) -> list[str]:
    return [
        *("", f"## {spec.name}", "", spec.sentence, ""),
        *("| column | dtype | unit | what it holds |", "|---|---|---|---|"),
        *(f"| `{c.name}` | {c.dtype} | {c.unit} | {c.sentence} |" for c in spec.columns),
    ]


def kinds_page() -> str:
    """Every named kind with its sentence."""
    lines = ["# Kinds", PRINTED, "The words that results, options and tables use."]
    for kind in (
        Resource, Request, Domain, Evidence, SourceUsage, ImpactModel, QueryBy, BlameKind,
        WasteCause, InputStatus, Level, FeatureKind, CauseEvidence, BaseModel, LearnerSet, Anomaly,
        Pattern, Verdict, ChangeKind, RunBy, MatchBy,
        CompareMethod,
    ):  # fmt: skip
        lines += ["", f"## {kind.__name__}", "", "| value | meaning |", "|---|---|"]
        lines += [f"| `{member.value}` | {member.sentence} |" for member in kind]
        if kind is Request:
            lines += ["", "| request | resource | who can hold it |", "|---|---|---|"]
            lines += [f"| `{r.value}` | {r.resource} | {r.domain.sentence} |" for r in Request]
    return "\n".join(lines) + "\n"


FILES = """
A file that a command writes is made new beside its target and then takes the target's name, so it
is whole or not there. `--force` replaces what stands there: of a link the link, never the file that
it leads to. Written into are `/dev/stdout` and other open descriptors (`/dev/fd/3`, `>(program)`),
`/dev/null`, terminals by `/dev/tty`, and named pipes of your own; they need no `--force`. The log
of `iqcar inject` is appended to, and refused where it is a link.
"""
"""How commands write files."""


def commands_page() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command

    from iqcar.cli.main import app

    commands = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        parts = getattr(command, "commands", {})
        commands[name] = command
        commands |= {f"{name} {part}": of_group for part, of_group in parts.items()}
    lines = ["# Commands", PRINTED.rstrip(), "", "Exit codes of every command:", ""]
    lines += ["| code | meaning |", "|---|---|"]
    lines += [f"| {code.value} | {sentence} |" for code, sentence in EXIT_CODES.items()]
    lines += ["", FILES.strip(), "", *BUGS.splitlines()]
    for name, command in commands.items():
        lines += [
            "",
            f"## iqcar {name}",
            "",
            " ".join((command.help or "").split(" Example: ")[:1]),
        ]
        if command.params:
            lines += ["", "| argument or option | what it is for | default |", "|---|---|---|"]
        for param in command.params:
            shown = (
                ", ".join(f"`{o}`" for o in param.opts if o.startswith("-"))
                or f"`{param.metavar or param.name}`"
            )
            default = "" if param.default in (None, False) else str(param.default)
            lines.append(f"| {shown} | {getattr(param, 'help', '') or ''} | {default} |")
    return "\n".join(lines) + "\n"


def _fields(properties: dict[str, Any]) -> list[str]:
    lines = ["| field | holds | meaning |", "|---|---|---|"]
    for name, field in properties.items():
        if "const" in field:
            holds = f"`{field['const']}`"
        elif "enum" in field:
            holds = ", ".join(f"`{value}`" for value in field["enum"])
        else:
            types = field.get("type", field.get("$ref", "").rsplit("/", 1)[-1])
            holds = " or ".join([types] if isinstance(types, str) else types)
        lines.append(f"| `{name}` | {holds} | {field['description']} |")
    return lines


def rules_page() -> str:
    """The rules file, the fields of a rule and of pools, and advice where pools do not help."""
    schema = json.loads(rule_schema())
    parts = schema["$defs"]
    lines = ["# Rules", PRINTED, "`iqcar analyze --rules FILE` writes them, compiled to pools.", ""]
    lines += [*_fields(schema["properties"]), "", "## A rule", ""]
    lines += ["The first six fields are the paper's 6-tuple (iQCAR definition 6.1).", ""]
    lines += _fields(parts["rule"]["properties"])
    lines += ["", "## A setting", "", *_fields(parts["setting"]["properties"])]
    lines += [
        "",
        "## What is expected",
        "",
        "Found by [replaying the recorded run](replay.md).",
        "",
    ]
    lines += _fields(parts["rule"]["properties"]["expected"]["properties"])
    for title, part in (("A pool", "pool"), ("An assignment", "assignment")):
        lines += ["", f"## {title}", "", *_fields(parts[part]["properties"])]
    lines += ["", "All fields of an assignment that are not empty must match."]
    lines += ["", "## How rules become pools", "", *HOW_RULES_BECOME_POOLS.splitlines()]
    lines += ["", "## What was recorded", "", *_fields(parts["recorded"]["properties"])]
    lines += _advice_kinds()
    lines += ["", "## Causes and advice", "", "What helps when more or fewer slots do not.", ""]
    lines += ["| cause | meaning | advice |", "|---|---|---|"]
    lines += [
        f"| {c.name} | {c.sentence} | {c.told(recorded=False)} |" for c in vocabulary().values()
    ]
    lines += ["", "## Causes of stragglers and advice", ""]
    lines += [
        "Why a task was slower than its stage ([stragglers.md](stragglers.md)). This is advice"
    ]
    lines += ["to people: no pool is ever made from it.", ""]
    lines += ["| cause | key | meaning | advice |", "|---|---|---|---|"]
    lines += [
        f"| {c.name} | `{key}` | {c.sentence} | {c.told(recorded=False)} |"
        for key, c in straggler_causes().items()
    ]
    lines += ["", "## Causes of wasted work and advice", ""]
    lines += ["Why work was wasted ([wasted-work.md](wasted-work.md)). Advice to people, too.", ""]
    lines += ["| cause | key | meaning | advice |", "|---|---|---|---|"]
    lines += [
        f"| {c.name} | `{key}` | {c.sentence} | {c.advice} |" for key, c in waste_causes().items()
    ]
    lines += ["", "## Topics and advice", ""]
    lines += ["What keeps making tasks slow ([topics.md](topics.md)). Advice to people, too."]
    lines += ["", "| topic | key | meaning | advice | known by |", "|---|---|---|---|---|"]
    lines += [
        f"| {t.name} | `{key}` | {t.sentence} | {t.advice} "
        f"| {' '.join(f'`{word}`' for word in t.keywords)} |"
        for key, t in topic_vocabulary().items()
    ]
    return "\n".join(lines) + "\n"


def _advice_kinds() -> list[str]:
    """The kinds of ADVICE rules, with their settings."""
    lines = ["", "## Advice rules", "", *HOW_ADVICE_IS_FOUND.splitlines(), ""]
    lines += ["| kind | against | one per | what to do | settings |", "|---|---|---|---|---|"]
    for key, kind in advice_kinds().items():
        settings = [f"`{one.name}`: {one.value}{_where(one)} ({one.why})" for one in kind.settings]
        other = "size of tasks" if key in (SMALL_KIND, LARGE_KIND) else kind.how
        against = " ".join(f"`{cause}`" for cause in kind.causes) or other
        does = f"{kind.do} {kind.unrecorded}".rstrip()
        lines.append(
            f"| `{key}`: {kind.name} | {against} | {kind.scope} | {does} | "
            f"{'<br>'.join(settings)} |"
        )
    return lines


def _where(setting: AdviceSetting) -> str:
    since = f", from Spark {setting.since} on" if setting.since else ""
    until = f", before {setting.until}" if setting.until else ""
    return f"{since}{until}{f', {setting.only} only' if setting.only else ''}"


def result_page() -> str:
    """The fields of the result's JSON."""
    schema = json.loads(result_schema())
    lines = ["# Result", PRINTED, schema["description"], "`iqcar schema` prints its JSON Schema."]
    parts = {"The whole": schema, **schema["$defs"]}
    for name, part in parts.items():
        lines += ["", f"## {name}", "", *_fields(part["properties"])]
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """The metrics that `iqcar serve` tells Prometheus."""
    lines = ["# Metrics", PRINTED, METRICS, "", "| metric | kind | labels | means |"]
    lines.append("|---|---|---|---|")
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.sample}` | {family.kind} | {labels} | {family.help} |")
    lines += ["", "| label | values |", "|---|---|"]
    lines += [f"| `{name}` | {values} |" for name, values in METRIC_LABELS.items()]
    return "\n".join(lines) + "\n"


def evaluation_page() -> str:
    """What experiments found, next to what the papers did."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "experiments"))
    from page import page

    return page(PRINTED)


def compatibility_matrix() -> str:
    """Which Spark, Python and platform the tests run on."""
    sys.path.insert(0, str(DOCS.parent))
    from scripts.supported import compatibility_page

    return compatibility_page(PRINTED)


def rooms_picture() -> str:
    """The rooms of the package, as SVG."""
    sys.path.insert(0, str(DOCS.parent))
    from scripts.draw_rooms import draw_package
    from tests.project.test_layers import FLOW, ROOMS

    return draw_package(FLOW, ROOMS)


def listener_rooms_picture() -> str:
    """The rooms of the Spark plugin, as SVG."""
    sys.path.insert(0, str(DOCS.parent))
    from scripts.draw_rooms import draw_plugin
    from tests.project.test_listener_rooms import FLOW

    return draw_plugin(FLOW)


PAGES = {
    "rooms.svg": rooms_picture,
    "listener_rooms.svg": listener_rooms_picture,
    "evaluation.md": evaluation_page,
    "compatibility.md": compatibility_matrix,
    "tables.md": tables_page,
    "stored-tables.md": stored_tables_page,
    "kinds.md": kinds_page,
    "commands.md": commands_page,
    "rules.md": rules_page,
    "result.md": result_page,
    "metrics.md": metrics_page,
}


def main() -> None:
    """Write all pages and name them."""
    DOCS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"Wrote docs/{name}\n")
    from tour import PAGE, tour_page

    PAGE.write_text(tour_page(), "utf-8")
    sys.stdout.write("Wrote docs/tour.md\n")


if __name__ == "__main__":
    main()
