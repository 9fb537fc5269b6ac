"""Parents of a stage as the rule states them: every candidate is looked at for every stage."""

from __future__ import annotations


def latest_before(
    row: int,
    keys: list[tuple[int, int]],
    submission: list[float],
    parents: tuple[int, ...],
    last_rdd: dict[int, int],
) -> set[int]:
    """Rows of the stages that did the work of a stage's parents."""
    found = set()
    for parent in parents:
        rows = [other for other, (stage_id, _) in enumerate(keys) if stage_id == parent]
        if not rows and parent in last_rdd:
            rows = [
                other
                for other, (stage_id, _) in enumerate(keys)
                if last_rdd[stage_id] == last_rdd[parent]
            ]
        earlier = [
            other
            for other in rows
            if keys[other][0] < keys[row][0] and submission[other] <= submission[row]
        ]
        if earlier:
            found.add(max(earlier, key=lambda other: (submission[other], other)))
    return found
