"""The page of rules: the file, how rules become pools, and advice."""

from __future__ import annotations

import json
from typing import Any

from iqcar.base.units import percent
from iqcar.replay.rule_effect.effect import AS_GOOD, SHARES
from iqcar.rules.advice_rules import LEAST_DELAY_MS, LEAST_SHARE
from iqcar.rules.compile_pools import MAX_RATIO, RATIO_ERROR, VICTIMS_FIRST
from iqcar.rules.propose_rules import IDLE_SHARE, LARGE_BYTES, MANY_TASKS, SHORT_MS, START_SHARE
from iqcar.rules.straggler_delays import (
    LEAST_JOBS,
    LEAST_PART_MS,
    LEAST_RATIO_STAGES,
    SLOW_STAGES_SHARE,
    SLOW_TIMES,
)
from iqcar.rules.vocabulary import (
    advice_kinds,
    errors,
    rule_schema,
    straggler_causes,
    topic_vocabulary,
    vocabulary,
    waste_causes,
)
from scripts.printed_pages.page_parts import FIELDS, PRINTED, fields, listed

PERCENTS = ", ".join(percent(share) for share in SHARES)
HOW_RULES_BECOME_POOLS = f"""\
`iqcar analyze --rules FILE` and `iqcar rules compile FILE` do the same; the latter also after the
rules were edited, and writes `fairscheduler.xml`, `pools.json` and a page of lines to copy.

- Spark's FAIR scheduler offers a free slot first to pools with fewer running tasks than their
  minShare, then to the pool with the fewest running tasks for its weight. It takes no slot back. So
  a weight gives a share only relative to the other pools that want slots at that moment.
- AGG with share 1/n: the source's pool weighs one part. The pool `default`, which holds everybody
  else, weighs one part for each of the other queries; as many count as ran at once at most.
- DYNP: a priority weighs that many parts; an ordinary query weighs one. If the log tells the number
  of slots, victims whose priority is raised also get a minShare, together {percent(VICTIMS_FIRST)}
  of the slots, so that a heavy `default` pool does not delay a victim when few queries run. The
  rest stays for everybody else.
- CAP: the plugin lets tasks of the pool take at most that share of the slots there are at that
  moment, one at least. A running task keeps its slot. So no weight moves a query with long tasks
  off the slots that it took while nobody else wanted them. A strict cap keeps some slots free,
  which stand idle while nobody comes; a cap that is not strict gives idle slots away. A cap is
  proposed if weights do not help the victims and a cap does: of {PERCENTS} of the slots, the
  mildest cap with {percent(AS_GOOD)} of the gain of the best. Stock Spark and `fairscheduler.xml`
  have no caps.
- An application's own pools, if the plugin recorded them, keep mode and minShare. They divide what
  the rules leave in the proportion of their weights. Inside, pools of rules work as `default` does:
  FIFO, unless it was FAIR.
- Weights are small whole numbers: ratios are within {percent(RATIO_ERROR)} of those asked for, and
  at most {MAX_RATIO:.0f}. A pool that wants slots gets one at least, whatever its weight: shares
  smaller than that need more slots.
- A query has one pool, with a weight and perhaps a cap. Of several rules for its weight, AGG comes
  before DYNP; of two of one type, the one with the lower rule-order acts. The `notes` say what was
  decided, and what helps where pools do not.

The plugin [watches the file](listener.md#applying-rules): what is changed there acts within two
seconds. `iqcar analyze` of such a run says under "Rules that acted" which rule did what from when
to when, and which versions of the file were not accepted and why (JSON: `acting_rules`; table:
`rule_changes`).

In PySpark, `with iqcar.query("q39b", pool="iqcar-q39b"):` names what runs inside and puts it into a
pool; with the plugin and `spark.iqcar.rules` the program stays as it is.
"""
HOW_ADVICE_IS_FOUND = f"""\
ADVICE rules are for people: no scheduler acts on them, no pool is made from them, and no replay
predicts their effect. They are written from the causes of stragglers
([stragglers.md](stragglers.md)); the cause that explains most time over the median comes first.
Where [topics](topics.md) are looked for, a reason says how many of the stragglers have one that
says the same. Last comes one rule for each application whose executors others waited for
([blame.md](blame.md#waits-for-executors)).

- A straggler's time over its stage's median is divided among its causes: measured waits take what
  they explain, the others share the rest. Parts of less than {LEAST_PART_MS:.0f} ms do not count.
- Advice needs two things: {LEAST_DELAY_MS / 1000:.0f} s of such time in all, and stages that
  ended later for it by {percent(LEAST_SHARE)} of the duration of its queries. The delay of a stage
  is its largest part, or all parts divided by the number of tasks that ran at once. If this is not
  reached, or in too few stages, there is no advice.
- A host is slow if its tasks take {SLOW_TIMES} times as long as those elsewhere, or more. For
  each stage, the median duration on the host is divided by the median elsewhere; the median of
  these ratios counts. There must be {LEAST_RATIO_STAGES} stages of {LEAST_JOBS} jobs at least,
  and in {percent(SLOW_STAGES_SHARE)} of them the host must be slower by a tenth. If iQCAR blames
  queries for most of what its stragglers waited for, the host is busy, not slow.
- Small tasks: stages of {MANY_TASKS} tasks or more that run less than {SHORT_MS:.0f} ms each
  (median), where starting and ending them takes {percent(START_SHARE)} of their time or more.
- Large tasks: stages of fewer tasks than slots that read {LARGE_BYTES / 2**20:.0f} MB or more each
  (median), while {percent(IDLE_SHARE)} of the slots or more had nothing to do, of any query.
- Only settings are listed that the application's Spark has and that its queries and master can use.
  The tables do not hold its present settings: look at them before you change any.

[advice_kinds.json](../rules/advice_kinds.json) has the kinds with their settings; `iqcar analyze
--advice FILE` takes others in the same format.
"""


TOPICS = (
    "What keeps making the tasks slow of the queries that a rule is to help, and "
    "[how that shapes rules](topics.md#topics-shape-rules)."
)


CAUSES = """\
What is said and advised of a cause or a topic is data, shipped with iqcar: advice to people, no
pool is ever made from it. `--advice` and `--names` take files of your own in the same format.
"""


def rules_page() -> str:
    """The rules file, the fields of a rule and of pools, and advice where pools do not help."""
    schema = json.loads(rule_schema())
    parts = schema["$defs"]

    def part(title: str, said: str, properties: dict[str, Any]) -> list[str]:
        return ["", f"## {title}", "", *([said, ""] if said else []), *listed(fields(properties))]

    lines = [
        "# Rules",
        PRINTED,
        f"`iqcar analyze --rules FILE` writes them, compiled to pools. {FIELDS}",
    ]
    lines += ["", *listed(fields(schema["properties"]))]
    first = "The first six fields are the paper's 6-tuple (iQCAR definition 6.1)."
    lines += part("Rule", first, parts["rule"]["properties"])
    lines += part("Topic", TOPICS, parts["topic"]["properties"])
    lines += part("Setting", "", parts["setting"]["properties"])
    expected = parts["rule"]["properties"]["expected"]["properties"]
    lines += part("What is expected", "Found by [replaying the recorded run](replay.md).", expected)
    lines += part("Pool", "", parts["pool"]["properties"])
    matched = "All fields that are not empty must match."
    lines += part("Assignment", matched, parts["assignment"]["properties"])
    lines += part("Recorded", "", parts["recorded"]["properties"])
    lines += ["", "## How rules become pools", "", *HOW_RULES_BECOME_POOLS.splitlines()]
    lines += ["", "## Advice rules", "", *HOW_ADVICE_IS_FOUND.splitlines(), ""]
    lines += [f"- `{key}`: {kind.name}" for key, kind in advice_kinds().items()]
    lines += ["", "## Causes and topics", "", *CAUSES.splitlines(), ""]
    for what, file, named in (
        ("What was waited for", "advice", vocabulary()),
        ("[Stragglers](stragglers.md)", "causes", straggler_causes()),
        ("[Wasted work](wasted-work.md)", "wasted", waste_causes()),
        ("Errors that failed queries", "errors", errors()),
        ("[Topics](topics.md)", "topics", topic_vocabulary()),
    ):
        names = ", ".join(f"{one.name} (`{key}`)" for key, one in named.items())  # type: ignore[attr-defined]
        lines.append(f"- {what} ([{file}.json](../rules/{file}.json)): {names}.")
    return "\n".join(lines) + "\n"
