"""Import what commands import when they need it, in the process that they are forked from.

Typer, numba and plotly import most of themselves at their first command, function and figure.
Evaluating the parameters of all commands takes as long as a wrong usage of one: it is done once.
"""

# ruff: noqa: F401

from functools import cache

import cramjam
import duckdb
import fsspec
import pyarrow.pandas_compat
import rich.live
import typer.main

import iqcar.attach.spark_conf
import iqcar.cli.reading
import iqcar.cli.writing
import iqcar.comparison.compare_sets
import iqcar.comparison.restrict
import iqcar.eventlog.decode.framing
import iqcar.eventlog.decode.zstd
import iqcar.history.ask_store
import iqcar.history.stored_tables
import iqcar.live
import iqcar.live.overview
import iqcar.live.rule_loop
import iqcar.replay
import iqcar.report.html
import iqcar.report.html.compare
import iqcar.report.json.analyze
import iqcar.report.terminal.analyze
import iqcar.report.terminal.compare
import iqcar.report.terminal.compare_explain
import iqcar.report.terminal.live
import iqcar.report.terminal.rules_check
import iqcar.report.terminal.stragglers
import iqcar.report.terminal.topics
import iqcar.serve.server
import iqcar.stragglers.trace_survey
import iqcar.topics.build_topics
import iqcar.topics.job_workers
from iqcar.cli.main import app
from iqcar.serve.fork_server import prepare

typer.main.get_command = cache(typer.main.get_command)
typer.main.get_command(app).make_context("iqcar", ["queries", "log"]).close()
prepare("iqcar.serve.analysis_process")
prepare("iqcar.serve.question_process")
