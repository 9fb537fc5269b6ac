"""A real YARN on this machine: a resource manager and node managers, each with a host of its own.

Hosts are loopback addresses. There is no HDFS: applications stage their files in a folder.
"""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx

from tests.support.free_port import free_port
from tests.support.hadoop_jars import hadoop_class_path
from tests.support.quick_spark import PLAIN
from tests.support.standalone_cluster import HOSTS, wait_until

MANAGER_HOST = "127.0.0.1"
NODE_MB = 4096
"""Memory of each node, as it says; containers use what they use."""
NODE_CORES = 4
SMALLEST_MB = 128
"""Memory of containers is a multiple of it."""
CAPACITY = "yarn.scheduler.capacity."
"""What the names of all properties of the capacity scheduler begin with."""
Queues = Mapping[str, str] | str
"""Properties of the capacity scheduler, with or without :data:`CAPACITY`; or a whole file's XML."""
START_TIMEOUT_S = 600
"""An idle machine takes some 10 s."""
_SERVER = "org.apache.hadoop.yarn.server"


@dataclass(frozen=True)
class YarnCluster:
    """A running YARN.

    conf: the folder for ``HADOOP_CONF_DIR``.
    url: of the resource manager's web server, without a slash at its end.
    folder: where the servers' output and the containers' folders are.
    class_path: of Hadoop's servers and tools.
    """

    conf: Path
    url: str
    folder: Path
    class_path: str

    def ask(self, what: str) -> dict[str, Any]:
        """Return what ``/ws/v1/cluster/`` and ``what`` hold."""
        got = httpx.get(f"{self.url}/ws/v1/cluster/{what}", timeout=60)
        found: dict[str, Any] = got.raise_for_status().json()
        return found

    def applications(self) -> list[dict[str, Any]]:
        """Return all applications as the resource manager tells of them."""
        return list((self.ask("apps")["apps"] or {}).get("app", []))

    def set_queues(self, queues: Queues) -> None:
        """Replace the configuration of the queues; fails where the resource manager refuses it."""
        _write_queues(self.conf, queues)
        done = self.admin("-refreshQueues")
        assert done.returncode == 0, done.stderr

    def admin(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``yarn rmadmin``."""
        main = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
        start = _java(self.conf, self.class_path, main, most_mb=128)
        return subprocess.run([*start, *words], capture_output=True, text=True, check=False)


@contextmanager
def yarn_cluster(
    folder: Path,
    queues: Queues,
    *,
    hosts: tuple[str, ...] = HOSTS,
    settings: Mapping[str, str] | None = None,
) -> Iterator[YarnCluster]:
    """Start the servers, and stop exactly these; skips where Hadoop's servers cannot be had.

    Parameters
    ----------
    folder : path
        An empty one, for all that the servers write.
    queues : mapping or str
        Configuration of the capacity scheduler: see :data:`Queues`.
    hosts : tuple of str
        Loopback addresses, one node manager each, with :data:`NODE_MB` and :data:`NODE_CORES`.
    settings : mapping, optional
        More properties for yarn-site.xml.
    """
    class_path = hadoop_class_path()
    ports = [free_port() for _ in range(5)]
    common = {**_common(folder, ports), **(settings or {})}
    cluster = YarnCluster(folder / "conf", f"http://{MANAGER_HOST}:{ports[0]}", folder, class_path)
    for name, host in {"conf": MANAGER_HOST, **{host: host for host in hosts}}.items():
        conf = folder / name if name == "conf" else folder / name / "conf"
        conf.mkdir(parents=True)
        of_host = _of_node(folder / host, host) if name != "conf" else {}
        (conf / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}), "utf-8")
        (conf / "yarn-site.xml").write_text(_xml({**common, **of_host}), "utf-8")
    _write_queues(cluster.conf, queues)
    running: list[subprocess.Popen[bytes]] = []
    try:
        main = f"{_SERVER}.resourcemanager.ResourceManager"
        running.append(_server(cluster, MANAGER_HOST, cluster.conf, main))
        for host in hosts:
            main = f"{_SERVER}.nodemanager.NodeManager"
            running.append(_server(cluster, host, folder / host / "conf", main))
        wait_until(
            lambda: _nodes_running(cluster, running) == len(hosts), "nodes of YARN", START_TIMEOUT_S
        )
        yield cluster
    finally:
        for server in reversed(running):
            server.terminate()
        for server in running:
            server.wait()


def _nodes_running(cluster: YarnCluster, servers: list[subprocess.Popen[bytes]]) -> int:
    for server in servers:
        assert server.poll() is None, _last_words(cluster)
    try:
        nodes = cluster.ask("nodes")["nodes"] or {}
    except httpx.HTTPError:  # it does not listen yet
        return 0
    return sum(node["state"] == "RUNNING" for node in nodes.get("node", []))


def _last_words(cluster: YarnCluster) -> str:
    logs = sorted(cluster.folder.glob("*.log"))
    return "\n".join(f"{log.name}: {log.read_text('utf-8')[-1500:]}" for log in logs)


def _server(cluster: YarnCluster, host: str, conf: Path, main: str) -> subprocess.Popen[bytes]:
    name = f"{main.rpartition('.')[2]}-{host}"
    with (cluster.folder / f"{name}.log").open("wb") as out:
        return subprocess.Popen(
            _java(conf, cluster.class_path, main, most_mb=256),
            stdout=out,
            stderr=out,
            cwd=cluster.folder,
            env={**os.environ, "HADOOP_CONF_DIR": str(conf)},
        )


def _java(conf: Path, class_path: str, main: str, most_mb: int) -> list[str]:
    options = [*PLAIN.split(), f"-Xmx{most_mb}m", "-Dlog4j2.level=WARN"]
    opened = [f"--add-opens=java.base/java.{part}=ALL-UNNAMED" for part in ("lang", "net", "util")]
    return ["java", *options, *opened, "-cp", f"{conf}{os.pathsep}{class_path}", main]


def _common(folder: Path, ports: list[int]) -> dict[str, str]:
    """Properties of the resource manager, which its clients and the nodes need too."""
    names = ("webapp", "scheduler", "resource-tracker", "admin")
    manager, node = "yarn.resourcemanager", "yarn.nodemanager"
    capacity = f"{_SERVER}.resourcemanager.scheduler.capacity.CapacityScheduler"
    policy = f"{_SERVER}.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy"
    preemption = f"{manager}.monitor.capacity.preemption"
    return {
        f"{manager}.hostname": MANAGER_HOST,
        f"{manager}.address": f"{MANAGER_HOST}:{ports[4]}",
        **{
            f"{manager}.{name}.address": f"{MANAGER_HOST}:{port}"
            for name, port in zip(names, ports, strict=False)
        },
        f"{manager}.scheduler.class": capacity,
        # Queues say whether they may be preempted; waits are short, for tests.
        f"{manager}.scheduler.monitor.enable": "true",
        f"{manager}.scheduler.monitor.policies": policy,
        f"{preemption}.monitoring_interval": "500",
        f"{preemption}.max_wait_before_kill": "1000",
        f"{preemption}.total_preemption_per_round": "1.0",
        f"{preemption}.natural_termination_factor": "1.0",
        f"{preemption}.max_ignored_over_capacity": "0.0",
        f"{manager}.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.scheduler.minimum-allocation-mb": str(SMALLEST_MB),
        "yarn.http.policy": "HTTP_ONLY",
        f"{node}.resource.memory-mb": str(NODE_MB),
        f"{node}.resource.cpu-vcores": str(NODE_CORES),
        f"{node}.vmem-check-enabled": "false",
        f"{node}.pmem-check-enabled": "false",
        f"{node}.disk-health-checker.enable": "false",
        f"{node}.delete.debug-delay-sec": "600",
        "hadoop.http.staticuser.user": getpass.getuser(),
        "hadoop.tmp.dir": str(folder / "tmp"),
    }


def _of_node(folder: Path, host: str) -> dict[str, str]:
    node = "yarn.nodemanager"
    return {
        "hadoop.tmp.dir": str(folder / "tmp"),
        f"{node}.hostname": host,
        f"{node}.bind-host": host,
        f"{node}.address": f"{host}:0",
        f"{node}.localizer.address": f"{host}:{free_port()}",
        f"{node}.collector-service.address": f"{host}:0",
        f"{node}.webapp.address": f"{host}:0",
        f"{node}.local-dirs": str(folder / "local"),
        f"{node}.log-dirs": str(folder / "containers"),
    }


def _write_queues(conf: Path, queues: Queues) -> None:
    if not isinstance(queues, str):
        named = {CAPACITY + name.removeprefix(CAPACITY): value for name, value in queues.items()}
        calculator = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        # Cores count, not memory alone; applications' masters may take all there is.
        chosen = {f"{CAPACITY}resource-calculator": calculator}
        chosen |= {f"{CAPACITY}maximum-am-resource-percent": "1.0"}
        queues = _xml({**chosen, **named})
    (conf / "capacity-scheduler.xml").write_text(queues, "utf-8")


def _xml(properties: Mapping[str, str]) -> str:
    """Write properties as Hadoop reads them."""
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])
