"""The page of rules: the file, how rules become pools, and advice."""

from __future__ import annotations

import json

from iqcar.base.units import percent
from iqcar.replay.rule_effect.effect import AS_GOOD, SHARES
from iqcar.rules.advice_rules import LARGE_KIND, LEAST_DELAY_MS, LEAST_SHARE, SMALL_KIND
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
    AdviceSetting,
    advice_kinds,
    rule_schema,
    straggler_causes,
    topic_vocabulary,
    vocabulary,
    waste_causes,
)
from scripts.printed_pages.page_parts import PRINTED, fields

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

The kinds are in `rules/advice_kinds.json` (`rules/advice_kinds.schema.json`); `iqcar analyze
--advice FILE` takes others in the same format.
"""


TOPICS = (
    "What keeps making the tasks slow of the queries that a rule is to help, and "
    "[how that shapes rules](topics.md#topics-shape-rules)."
)


def rules_page() -> str:
    """The rules file, the fields of a rule and of pools, and advice where pools do not help."""
    schema = json.loads(rule_schema())
    parts = schema["$defs"]
    lines = ["# Rules", PRINTED, "`iqcar analyze --rules FILE` writes them, compiled to pools.", ""]
    lines += [*fields(schema["properties"]), "", "## Rule", ""]
    lines += ["The first six fields are the paper's 6-tuple (iQCAR definition 6.1).", ""]
    lines += fields(parts["rule"]["properties"])
    lines += ["", "## Topic", "", TOPICS, "", *fields(parts["topic"]["properties"])]
    lines += ["", "## Setting", "", *fields(parts["setting"]["properties"])]
    lines += [
        "",
        "## What is expected",
        "",
        "Found by [replaying the recorded run](replay.md).",
        "",
    ]
    lines += fields(parts["rule"]["properties"]["expected"]["properties"])
    for title, part in (("Pool", "pool"), ("Assignment", "assignment")):
        lines += ["", f"## {title}", "", *fields(parts[part]["properties"])]
    lines += ["", "All fields of an assignment that are not empty must match."]
    lines += ["", "## How rules become pools", "", *HOW_RULES_BECOME_POOLS.splitlines()]
    lines += ["", "## Recorded", "", *fields(parts["recorded"]["properties"])]
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
