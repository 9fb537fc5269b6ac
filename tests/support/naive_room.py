"""Room for one more executor by its definition, container by container, one moment at a time."""

from __future__ import annotations

from math import ceil

from iqcar.tables import Tables

LEAST_MB = 256.0
EXECUTOR_MB, MASTER_MB = 768.0, 256.0
"""700 and 201 MB, rounded up."""


class NaiveRoom:
    """Counts, for one moment, container by container."""

    def __init__(self, tables: Tables) -> None:
        self.told = tables.yarn
        assert self.told is not None
        label = {
            row["app"]: row["value"]
            for row in tables.conf.to_dict("records")
            if row["key"].endswith("nodeLabelExpression")
        }
        self.held = []
        for one in tables.executors.to_dict("records"):
            app = one["app"]
            size = ceil(700 / LEAST_MB) * LEAST_MB, one["cores"]
            told = self.told.applications[app]
            where = f"n{one['host']}", told.queue, label.get(app, ""), told.user
            self.held.append((app, *size, one["added_ms"], one["removed_ms"], *where))
        for app in range(len(tables.applications)):
            told = self.told.applications[app]
            self.held.append((app, MASTER_MB, 1.0, 0.0, 60_000.0, "n0", told.queue, "", told.user))
        rest = self.told.applications[-1]
        self.held.append(
            (-1, rest.memory_mb_s / 60, 0.0, 0.0, 60_000.0, "", rest.queue, "", rest.user)
        )
        self.label = label

    def at(self, moment: float) -> list[tuple]:
        return [one for one in self.held if one[3] <= moment < one[4]]

    def cores_count(self) -> bool:
        moments = {one[3] for one in self.held}
        return all(
            sum(one[2] for one in self.at(t) if one[5] == node.host) <= node.cores
            for t in moments
            for node in self.told.nodes
        )

    def count(self, mb: float, cores: float) -> int:
        found = 0
        while (found + 1) * EXECUTOR_MB <= mb and (
            not self.cores_count() or (found + 1) * 2.0 <= cores
        ):
            found += 1
        return found

    def of_user(self, app: int, now: list[tuple]) -> list[int]:
        """Executors that a user gets until more is held than one user may hold of the queue."""
        label, told = self.label.get(app, ""), self.told.applications[app]
        mine = [one for one in now if (one[6], one[7], one[8]) == (told.queue, label, told.user)]
        mb, cores = sum(one[1] for one in mine), sum(one[2] for one in mine)
        (queue,) = (q for q in self.told.queues if q.path == told.queue)
        found = []
        for limit in queue.user_limits:
            if limit.label == label:
                most, got = self.share(limit.memory_mb, limit.cores), 0
                while self.share(mb + got * EXECUTOR_MB, cores + got * 2.0) <= most + 1e-9:
                    got += 1
                found.append(got)
        return found

    def share(self, mb: float, cores: float) -> float:
        """Dominant share of the cluster; of memory, where cores do not count."""
        of_mb = mb / sum(node.memory_mb for node in self.told.nodes)
        of_cores = cores / sum(node.cores for node in self.told.nodes)
        return max(of_mb, of_cores) if self.cores_count() else of_mb

    def fits(self, app: int, moment: float) -> list[int]:
        """Executors that fit by the user's limit, the queue, its parents, and the nodes."""
        label, now = self.label.get(app, ""), self.at(moment)
        found = self.of_user(app, now)
        path = self.told.applications[app].queue.split(".")
        for depth in range(len(path), 0, -1):
            inside = [
                one for one in now if one[7] == label and one[6].split(".")[:depth] == path[:depth]
            ]
            (queue,) = (q for q in self.told.queues if q.path == ".".join(path[:depth]))
            (limit,) = (one for one in queue.limits if one.label == label)
            left = limit.memory_mb - sum(one[1] for one in inside)
            found.append(self.count(left, limit.cores - sum(one[2] for one in inside)))
        alien = {one[5] for one in self.held if one[7] == "" and not label}
        nodes = [n for n in self.told.nodes if label in (n.labels or ("",)) or n.host in alien]
        each, left = 0, 0.0
        for node in nodes:
            on_it = [one for one in now if one[5] == node.host]
            free = node.memory_mb - sum(one[1] for one in on_it)
            each += self.count(free, node.cores - sum(one[2] for one in on_it))
            left += free
        left -= sum(one[1] for one in now if one[0] == -1 and one[7] == label)
        return [*found, min(each, int(max(left, 0) // EXECUTOR_MB))]
