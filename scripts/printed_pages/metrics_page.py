"""The page of the metrics that `iqcar serve` tells Prometheus."""

from __future__ import annotations

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.losses import (
    LABEL_CHARACTERS,
    MAX_REMEMBERED,
    MOST_NAMED,
    MOST_OF_RESULT,
    NAMES,
)
from iqcar.apps.serve.metric_families import FAMILIES
from iqcar.apps.serve.metrics import UNREAD
from iqcar.enums import BlameKind, InputStatus, Resource
from scripts.printed_pages.page_parts import PRINTED
from scripts.printed_pages.plugin_metrics import plugin_metrics

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


def metrics_page() -> str:
    """The metrics that `iqcar serve` tells Prometheus."""
    lines = ["# Metrics", PRINTED, METRICS, "", "| metric | kind | labels | means |"]
    lines.append("|---|---|---|---|")
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.sample}` | {family.kind} | {labels} | {family.help} |")
    lines += ["", "| label | values |", "|---|---|"]
    lines += [f"| `{name}` | {values} |" for name, values in METRIC_LABELS.items()]
    return "\n".join([*lines, "", plugin_metrics()])
