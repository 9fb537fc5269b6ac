"""``iqcar experiment``: run queries under chosen load, and fit how much it slows them."""

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
from iqcar.errors import ExitCode, IqcarError, UsageError

if TYPE_CHECKING:
    pass


@command("Run queries under load, and fit how much it slows them.")
def experiment(
    plan: str,
    *,
    yes: bool = False,
    dry_run: bool = False,
    out: Path = Path("iqcar-experiment"),
    force: bool = False,
) -> Result | None:
    """Run queries with and without load on own hosts, and fit how much each resource slows them.

    Each query runs in turn alone and beside processes that load the processor, disk, network or
    memory at chosen levels, within a budget of time. The result, curves.json, holds a curve for
    each query and each kind of stage; `iqcar whatif --curves` uses it. Ctrl-C ends everything that
    was started and keeps what was measured; a second one ends at once.

    Example: iqcar experiment plan.json --yes

    Parameters
    ----------
    plan : PLAN
        JSON file: `iqcar schema experiment`.
    yes
        Run it. Without it nothing runs.
    dry_run
        Print what would run; as without --yes.
    out : DIR
        Folder for curves.json and Spark's event log.
    """
    from iqcar.apps.cli.run_injection import check_system, end_if_stopped
    from iqcar.base.files.json_text import json_bytes
    from iqcar.lab.experiment.curves_file import results_of
    from iqcar.lab.experiment.experiment_plan import read_experiment
    from iqcar.lab.experiment.experiment_text import print_dry_run, print_results
    from iqcar.lab.experiment.run_experiment import check_host_bears, run_experiment
    from iqcar.lab.inject.run_plan import stopping

    check_system()
    if yes and dry_run:
        raise UsageError("only one of --yes and --dry-run can be given")
    planned = read_experiment(plan)
    check_host_bears(planned)
    if not yes:
        print_dry_run(planned, f"iqcar experiment {shlex.quote(plan)} --yes")
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

    def end() -> None:
        end_if_stopped(stop)
        if not any(run.pair and not run.failed for run in done.runs):
            failed = next(
                (run.failed for run in done.runs if run.failed), "the budget is too short"
            )
            raise IqcarError(f"nothing was measured; the first error: {failed}", plan)

    partly = any(run.failed for run in done.runs)
    ends = ExitCode.PARTIAL if partly else ExitCode.OK
    return Result(partial(print_results, results), lambda: content, ends=ends, last=end)
