"""What Spark is told: the plan's settings, and the plugin beside the plan's own plugins."""

from __future__ import annotations

from iqcar.logs.attach.spark_conf import PLUGIN
from iqcar_lab.experiment.run_experiment import attached
from tests.support.listener_spark import build_jar


def test_the_plugin_is_attached_beside_the_plans_own() -> None:
    build_jar()
    conf = {"spark.plugins": f"org.example.Own,{PLUGIN}", "spark.jars": "/opt/own.jar"}
    found = attached(conf)
    assert found["spark.plugins"] == f"org.example.Own,{PLUGIN}"
    first, last = found["spark.jars"].split(",")
    assert first.endswith("/opt/own.jar") and "listener" in last
    assert "spark.eventLog.enabled" not in found  # the plan may switch the log off
