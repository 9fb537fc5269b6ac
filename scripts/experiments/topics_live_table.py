"""The result of the live topics experiment as Markdown tables."""

from __future__ import annotations

from typing import Any

from tables import table


def topics_live(result: dict[str, Any]) -> str:
    """Print the topics, what each trouble's stages have of them, and the advice."""
    stages = sum(one["stages"] for one in result["stages"])
    parts = [
        f"{stages} stage attempts of {result['tasks_per_stage']} tasks on {result['hosts']} hosts, "
        f"seed {result['seed']}, Spark {result['spark']}.",
        _topics(result),
        "What was going on in a stage, and how much of its mixture has a topic of that name; "
        "then the same of its stragglers, one by one:",
        table(
            ["trouble", "stages", "with stragglers", "share named so", "mostly named so",
             "stragglers", "named so", "mixture", "blamed for that"],
            [_row(one) for one in result["stages"]],
        ),
        "Advice from the same run:",
        "\n".join(f"- {_plain(one['reason'])} (`{one['kind']}`)" for one in result["advice"])
        or "none.",
    ]  # fmt: skip
    return "\n\n".join(parts)


def _topics(result: dict[str, Any]) -> str:
    rows = [
        [one["name"], _words(one["keywords"]), f"{one['coverage']:.0%}", one["models"]]
        for one in result["topics"]
    ]
    found = table(["topic", "keywords", "stages that have it", "found by"], rows)
    return found if rows else f"No topics. {result['reason']}"


def _words(keywords: dict[str, float]) -> str:
    return ", ".join(f"`{word}` {weight:.0%}" for word, weight in keywords.items())


def _row(one: dict[str, Any]) -> list[str]:
    is_none = one["trouble"] == "none"
    shares = ", ".join(f"{name} {share:.0%}" for name, share in one["mixture"].items()) or "–"
    return [
        one["trouble"],
        str(one["stages"]),
        str(one["with_stragglers"]),
        "–" if is_none else f"{one['share_named_so']:.0%}",
        "–" if is_none else f"{one['dominant_named_so']} of {one['with_stragglers']}",
        str(one["stragglers"]),
        "–" if is_none else f"{one['stragglers_named_so']}",
        shares,
        _blamed(one["lost_ms_by_blame"]),
    ]


def _blamed(lost: dict[str, float]) -> str:
    """Whom iQCAR blames for what the stragglers' topics lack, in parts of the task time lost."""
    who = {"query": "other queries", "own": "itself", "known": "known causes",
           "unattributed": "nobody"}  # fmt: skip
    total = sum(lost.values())
    ordered = sorted(lost.items(), key=lambda item: -item[1])
    return ", ".join(f"{who[kind]} {ms / total:.0%}" for kind, ms in ordered if ms > 0) or "–"


def _plain(reason: str) -> str:
    return reason.replace("<", "&lt;").replace("|", "\\|")
