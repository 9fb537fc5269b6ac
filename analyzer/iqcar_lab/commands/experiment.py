"""``iqcar-lab experiment``: run queries under chosen load, and fit how much it slows them."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from iqcar.apps.cli.command import (
    SPARK,
    Result,
    check_writable,
    command,
    make_folder,
    need,
    write_result,
)
from iqcar.errors import ExitCode, IqcarError

if TYPE_CHECKING:
    from iqcar_lab.experiment.curves_file import CurvesFile
    from iqcar_lab.experiment.experiment_plan import LoadedPlan

MOST_ROWS = 40


@command("Run queries under load, and fit how much it slows them.")
def experiment(
    plan: str, *, yes: bool = False, out: Path = Path("iqcar-experiment"), force: bool = False
) -> Result | None:
    """Run queries with and without load on this host, and fit how much each resource slows them.

    Each query runs in turn alone and beside processes that load the processor, disk, network or
    memory at chosen levels, within a budget of time. The result, curves.json, holds a curve for
    each query and each kind of stage; `iqcar whatif --curves` uses it. Ctrl-C ends everything that
    was started and keeps what was measured; a second one ends at once.

    Example: iqcar-lab experiment plan.json --yes

    Parameters
    ----------
    plan : PLAN
        JSON file: `iqcar-lab schema experiment`.
    yes
        Run it. Without it nothing runs, and what would run is printed.
    out : DIR
        Folder for curves.json and Spark's event log.
    """
    from iqcar.base.files.json_text import json_bytes
    from iqcar_lab.commands.inject import check_system, end_if_stopped
    from iqcar_lab.experiment.curves_file import results_of
    from iqcar_lab.experiment.experiment_plan import read_experiment
    from iqcar_lab.experiment.run_experiment import run_experiment
    from iqcar_lab.inject.run_plan import stopping

    check_system()
    planned = read_experiment(plan)
    for settings in planned.strengths.values():
        settings.check_room()
    if not yes:
        _print_planned(planned, f"iqcar-lab experiment {shlex.quote(plan)} --yes")
        return None
    if planned.needs_spark:
        need(SPARK)
    make_folder(out, parents=True)
    curves = str(out / "curves.json")
    check_writable(curves, force)
    with stopping(second_interrupts=True) as stop:
        done = run_experiment(planned, out, stop, lambda line: typer.echo(line, err=True))
        results = results_of(planned, done)
        content = json_bytes(results, indent=1) + b"\n"
        write_result(curves, content)
    failed = [run.failed for run in done.runs if run.failed]

    def end() -> None:
        end_if_stopped(stop)
        if not any(run.pair and not run.failed for run in done.runs):
            why = failed[0] if failed else "the budget is too short"
            raise IqcarError(f"nothing was measured; the first error: {why}", plan)

    ends = ExitCode.PARTIAL if failed else ExitCode.OK
    return Result(partial(_print_results, results), lambda: content, ends=ends, last=end)


def _print_planned(plan: LoadedPlan, act: str) -> None:
    """Print what would run, on which host, for how long at most, and how to do it."""
    from iqcar.base.units import duration, printable
    from iqcar.show.terminal.layout import terminal
    from iqcar_lab.commands.rows import print_rows
    from iqcar_lab.experiment.experiment_plan import at_level, cells_of

    console = terminal()
    rows = []
    for cell in cells_of(plan):
        hogs = at_level(plan.strengths[cell.resource], cell.level)
        row = {"query": cell.query, "under": cell.resource, "level": cell.level}
        row |= {"hogs on each host": f"{hogs.processes} × {hogs.anomaly}", "times": plan.repeats}
        rows.append(row | {"each at most_ms": 1000 * plan.longest_run_s})
    console.print("Would run, each beside the same without hogs:")
    print_rows(console, rows, MOST_ROWS)
    where = f"Spark at {plan.master}" if plan.needs_spark else "commands"
    most = duration(1000 * (plan.budget_s + 2 * plan.longest_run_s))
    lines = (
        f"queries: {where}; hogs: {', '.join(plan.hosts)}",
        f"for {duration(1000 * plan.budget_s)} from when Spark is up, and the pair that runs then: "
        f"at most {most}",
        f"Nothing was run. To run it: {act}",
    )
    for line in lines:
        console.print(printable(line))


def _print_results(results: CurvesFile) -> None:
    """Print curves, and predicted against measured."""
    from iqcar.base.units import printable, size
    from iqcar.replay.whatif.curves import FILLED
    from iqcar.show.terminal.layout import terminal
    from iqcar_lab.commands.rows import print_rows

    console = terminal()
    rows = []
    for one in results.curves:
        row = {"of": one.label or one.query, "resource": one.resource, "alone_ms": one.alone_ms}
        said = f"{one.share:.2f}" if one.identified else f"≤ {one.high:.2f}"
        row |= {"at once": one.tasks_at_once, "r/C": said, "range": [one.low, one.high]}
        # Tasks that may have filled the device by themselves would do at least this.
        least = "" if one.high < FILLED else "≥ "
        rate = f"{least}{size(one.own_rate_per_s)}/s" if one.own_rate_per_s else None
        rows.append(row | {"own rate": rate, "residual": one.residual, "pairs": one.pairs})
    console.print("How much hogs slow it:")
    print_rows(console, rows, MOST_ROWS)
    console.print("Each level predicted from the others:")
    checked = ("resource", "level", "measured", "predicted", "low", "high", "error")
    rows = [
        {"of": one.label or one.query, **{name: getattr(one, name) for name in checked}}
        for one in results.validation
    ]
    print_rows(console, rows, MOST_ROWS)
    console.print(f"law: {results.law}; k: hogs for each task; ranges are 80 %")
    for run in results.runs:
        if run.failed:
            under = f"under {run.resource} {run.level:g}"
            console.print(printable(f"failed: {run.query} {under}: {run.failed}"))
    if results.ended_by:
        console.print(f"ended by {results.ended_by}: not every pair was run")
