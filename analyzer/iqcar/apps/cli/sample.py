"""``iqcar sample``: record processors, memory, disks and network of a host outside Spark."""

from __future__ import annotations

import sys

import typer

from iqcar.apps.cli.command import command


@command("Sample this host once a second.", writes=("out",))
def sample(*, out: str, period: str = "1s", for_: str = "", host: str = "") -> None:
    """Sample this host: processors, memory, disks, network, and waits for them.

    Hosts that run Spark executors with the iqcar plugin are sampled by it. This command is for
    the others, and `iqcar analyze LOGS --samples FILE` joins what it wrote by host and time.

    Example: iqcar sample --out samples.jsonl --for 10min

    Parameters
    ----------
    out : FILE|-
        Where to write a line per sample.
    period : TIME
        Time between samples: 500ms, 1s, 2min.
    for_ : TIME
        How long; by default until Ctrl-C or SIGTERM.
    host : NAME
        This host's name as Spark knows it. Default: its own.
    """
    from iqcar.base.files.derived import open_derived
    from iqcar.base.units import parse_time
    from iqcar.errors import IqcarError
    from iqcar.logs.attach.spark_conf import sample_host

    period_s = parse_time(period, "--period")
    for_s = parse_time(for_, "--for") if for_ else float("inf")
    if out == "-":
        sample_host(_to_stdout, period_s=period_s, for_s=for_s, host=host)
        return
    count = 0
    try:
        # Flushed line by line, so that samples survive a crash.
        with open_derived(out) as file:

            def write(line: str) -> None:
                nonlocal count
                file.write(line.encode("ascii"))
                file.flush()
                count += 1

            sample_host(write, period_s=period_s, for_s=for_s, host=host)
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", out) from error
    typer.echo(f"Wrote {out} ({count} samples)", err=True)


def _to_stdout(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
