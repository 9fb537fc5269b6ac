"""Import what commands import when they need it, in the process that they are forked from.

Typer and plotly import most of themselves at their first command and figure.
Evaluating the parameters of all commands takes as long as a wrong usage of one: it is done once.
"""

# ruff: noqa: F401

from functools import cache

import cramjam
import duckdb
import fsspec
import pandas.core.methods.to_dict
import pandas.core.reshape.reshape
import pyarrow.pandas_compat
import pyarrow.vendored.version
import rich.live
import typer.main

import iqcar.apps.cli.command
import iqcar.apps.cli.reading
import iqcar.apps.serve.server
import iqcar.causes.topics.build_topics
import iqcar.causes.topics.topic_of_straggler
import iqcar.comparison.comparison
import iqcar.history.ask_store
import iqcar.history.stored_files
import iqcar.live
import iqcar.live.rule_loop
import iqcar.live.window
import iqcar.logs.attach.spark_conf
import iqcar.logs.decode.streams
import iqcar.replay
import iqcar.show.html
import iqcar.show.html.compare
import iqcar.show.json.analyze
import iqcar.show.terminal.analyze
import iqcar.show.terminal.compare
import iqcar.show.terminal.live
import iqcar.show.terminal.rules
import iqcar.show.terminal.whatif
from iqcar.apps.cli.main import app
from iqcar.apps.serve.fork_server import prepare
from iqcar.base.kernels import library
from iqcar.show.pictures.theme import nothing

typer.main.get_command = cache(typer.main.get_command)
typer.main.get_command(app).make_context("iqcar", ["queries", "log"]).close()
prepare("iqcar.apps.serve.worker")
library()
for dark in (False, True):
    nothing("A figure.", dark=dark).to_plotly_json()
