"""Ask what iQCAR's user study asks (§7.6), of programs: one reads iqcar's answers, one Spark's.

    .venv/bin/python scripts/experiments/user_study.py [--repeats N] [--scale S]

Ten questions about one recorded run of the BASE mix, easy to hard, each with four answers or the
names of the queries. The truth is measured: the mix runs again without each of its queries, and
each query runs alone, all of them after the same query has warmed the JVM. The first program calls
the tools of ``iqcar mcp``. The second reads the REST interface of a History Server, and does with
its times what can be done: time of tasks over slots is what a query needs alone, and time of
others' tasks beside it is what they cost.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import iqcar_answers
import spark_answers
from arms import OUT, Arm, alternate, base_queries, fresh, options, save
from live_tables import user_study
from study_questions import Truth, questions

EXPERIMENT = "user_study"
WARM, WARM_S = "q51", 15.0
"""The query that runs first, and what the others come later for it: a cold JVM takes seconds."""


def main() -> None:
    """Measure the truth, let both programs answer about each BASE run, and store the scores."""
    chosen = options("Ask ten questions about who delayed whom.", 2)
    fresh(EXPERIMENT)
    data, mix = base_queries(chosen.scale)
    names = [query.name for query in mix]
    (first,) = (replace(query, name="warm", start_s=0.0) for query in mix if query.name == WARM)
    queries = [replace(query, start_s=query.start_s + WARM_S) for query in mix]
    arms = [Arm("BASE", [first, *queries])]
    for query in queries:
        others = [one for one in queries if one is not query]
        arms.append(Arm(f"without-{query.name}", [first, *others]))
        arms.append(Arm(f"alone-{query.name}", [first, query]))
    runs = alternate(EXPERIMENT, arms, data, chosen.repeats)

    def median_s(arm: str, query: str) -> float:
        return statistics.median(run.duration_s[query] for run in runs[arm])

    truth = Truth(
        ran_s={name: median_s("BASE", name) for name in names},
        alone_s={name: median_s(f"alone-{name}", name) for name in names},
        without_s={
            (name, other): median_s(f"without-{other}", name)
            for name in names
            for other in names
            if other != name
        },
    )
    asked = questions(truth)
    rows = [
        {
            "question": question.text,
            "level": question.level,
            "truth": question.right(truth),
        }
        for question in asked
    ]
    for who, program in (("iqcar", iqcar_answers), ("spark", spark_answers)):
        for row in rows:
            row[who] = []
        for run in runs["BASE"]:
            with program.answering(run.log, OUT / EXPERIMENT, names) as facts:
                for row, question in zip(rows, asked, strict=True):
                    row[who].append(question.right(facts))
    save(
        EXPERIMENT,
        chosen.results,
        {
            "repeats": chosen.repeats,
            "scale": chosen.scale,
            "ran_s": truth.ran_s,
            "alone_s": truth.alone_s,
            "questions": rows,
        },
        user_study,
    )


if __name__ == "__main__":
    main()
