"""Import what commands import when they need it, in the process that they are forked from.

Typer, numba and plotly import most of themselves at their first command, function and figure.
"""

from typer.main import get_command

import iqcar.attach.spark_conf
import iqcar.cli.reading
import iqcar.cli.writing
import iqcar.comparison.compare_sets
import iqcar.comparison.restrict
import iqcar.eventlog
import iqcar.replay
import iqcar.report.html
import iqcar.report.html.compare
import iqcar.report.json.analyze
import iqcar.report.terminal.analyze
import iqcar.report.terminal.compare
import iqcar.report.terminal.compare_explain
import iqcar.report.terminal.rules_check
import iqcar.report.terminal.stragglers
import iqcar.report.terminal.topics
import iqcar.serve.server
import iqcar.topics.job_workers  # noqa: F401
from iqcar.cli.main import app
from iqcar.serve.fork_server import prepare

get_command(app).make_context("iqcar", ["queries", "log"]).close()
prepare("iqcar.serve.analysis_process")
prepare("iqcar.serve.question_process")
