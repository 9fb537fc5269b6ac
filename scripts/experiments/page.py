"""Print docs/evaluation.md: every experiment's command, the paper's result and this one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bigroots_table import bigroots
from compare_live_table import compare_live
from compare_pairs_table import compare_pairs
from induced_table import induced_contention, induced_memory
from live_rules_table import live_rules
from quiet_table import loud_ranking, quiet_clusters, quiet_formats
from tables import rules_efficacy, source_elimination
from thrift_tenants_table import thrift_tenants
from topics_live_table import topics_live
from whatif_live_table import whatif_live
from whatif_truth_table import whatif_truth

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "evaluation"
INTRODUCTION = """\
What the papers measured on clusters of ten machines, repeated on one: real Spark, real TPC-DS data
and queries, a few task slots. The numbers are of one machine with two processors; the order of
things is what can be compared. Each experiment is one command; its result lies beside this page as
JSON, and the tables are printed from it.
"""


@dataclass(frozen=True)
class Section:
    """One experiment of the page."""

    name: str
    title: str
    paper: str
    table: Callable[[dict[str, Any]], str]
    seen: str
    """What is to be said of the result, failures included."""


SECTIONS = (
    Section(
        "quiet_clusters",
        "Quiet clusters, and loud twins of them",
        "The papers do not ask what is said where nothing is short. Here clusters are simulated, "
        "and each query also alone: quiet ones with formats of different speed, uneven fetches, a "
        "page cache, skew, garbage collection, a slow host, sleeping and Python functions; loud "
        "ones with the same queries and less of something, or a hog. Noise is log-normal, on every "
        "wait for disk and network.",
        quiet_clusters,
        "Where nothing is short nothing is said to be lost. Where something is, as much is said "
        "as was lost, on average; of a single query 8 % of its run too much or too little, most "
        "beside a hog and where tasks differ much in size. From a plain log, sleeping beside a "
        "processor hog hides most of what the hog costs.",
    ),
    Section(
        "loud_ranking",
        "Who is blamed first on loud clusters, and what can be had",
        "Figure 8 of iQCAR removes sources in the order of their blame. Here every query is "
        "removed from every loud cluster above; its gain is the truth. Most culprits there are "
        "alike, and which costs a little more is luck. So the truth is compared with another "
        "truth: the same queries with other sizes of tasks. An oracle knows own rates, "
        "capacities, and what every task moved in which device at every moment, and attributes "
        "what was lost in proportion to it; what it misses no attribution can tell, only a "
        "simulation of the removal.",
        loud_ranking,
        "Blame ranks as the oracle does, and no worse than a second truth. Of culprits that are "
        "ahead by more than luck, 96 % come first; of pairs that differ by more, the oracle "
        "orders a few more rightly, most beside a slow host. Before sources counted by what "
        "they moved instead of their time in the device, τ was 0.64, and 0.37 where slow "
        "formats stood beside a hog.",
    ),
    Section(
        "compare_pairs",
        "Simulated pairs of sets of runs, with planted changes",
        "Spectroscope was judged on a storage system with problems of known causes. Here clusters "
        "are simulated before and after a change: more data, slower code, partitions, a plan, "
        "skew, spilling, a slow disk, host or processor, a new neighbour, several at once, or "
        "nothing but names. The effect on a query is that of the same runs simulated again without "
        "the change. Runs a side: 1 to 8. The printed method gets as structural threshold half of "
        "the runs of a side, and the root of its tree as cause.",
        compare_pairs,
        "The rules and the simulator have one author: the causes are a ceiling, not what a cluster "
        "will show. With one run a side a slow host is missed where time grows by less than about "
        "three times. Weakest are the causes where a neighbour runs in the same application.",
    ),
    Section(
        "compare_live",
        "Live sets of runs, with one change at a time",
        "The paper's case studies are problems of real systems, found by people. Here an embedded "
        "Spark runs queries of TPC-DS, a sort of all sales and a Python function over some, one "
        "after another in a fresh JVM; one thing is changed at a time, and `iqcar.compare` is told "
        "nothing of it.",
        compare_live,
        "Every cause but one is the planted one; a version is named beside what it changed. The "
        "exception: the driver of a short query shares its cores with the new application, and no "
        "record says what a driver waits for. Missed are changes of 6 to 18 %: the means of three "
        "or four equal runs differ by as much here, so that some are no effect of the change (less "
        "memory makes nothing faster). The false alarm is a sort that collected less garbage than "
        "after the other plans of the queries before it, presumably. Of sets that were not "
        "measured in turns one in eight pairs differs, mostly as an environment: another program "
        "ran for a while during the first. The rules were mended on earlier runs of the same "
        "changes (one a side, in other noise), and one on these runs: a path that Spark cuts names "
        "no table; before, all queries of moved data were said to have another plan.",
    ),
    Section(
        "whatif_truth",
        "What if, against the truth of a simulator",
        "Goldszmidt and Isaacs evaluate nothing. Here clusters are simulated, one thing is changed "
        "as each kind of question says, and the simulation repeated: what happens then is the "
        "truth. Families of runs have one device that is short, two culprits, two applications, "
        "few slots, uneven tasks and garbage collection, 12 to 20 mixed queries, a busy day in "
        "three shared FAIR pools, sessions that run their queries one after another, and tasks "
        "that hold execution memory. The fair world shares as the model does. The rough one breaks "
        "its assumptions: shares in proportion, disks that slow with streams, two threads per "
        "core, tasks that do not do the same in each round, and that want memory in the middle of "
        "their work. Blame is the duration less what was lost; slots only replays recorded "
        "durations.",
        whatif_truth,
        "Nothing was tuned on these seeds. Where one device is short, or slots are, answers are "
        "off by 1 to 3 % (median), and ranges hold what they should. Slot hand-outs are chaotic "
        "where many queries share few slots: the mixed families are off by 4 to 5 %, and of the "
        "small changes by a later start a third has the wrong sign. On the rough busy day half of "
        "the pairs are refused, most of them short queries. Half as many slots, and lost hosts, "
        "change most and are off most. In the rough world ranges hold 71 % where 80 are said: "
        "least where processors are halved, since the model takes two threads of a core for two "
        "cores, and where tasks want memory late: there a quarter of the pairs is refused, and "
        "where waits stay as they were, removals are off by up to most of the duration. Blame "
        "names the top source of removals as often in the rough world. Errors before and after "
        "(median): questions about executors, before these were taken as whole, 27 %, then 6 %; "
        "sessions, before queries that ran one after another did so in the replay, 10 %, then 4 % "
        "(both on other seeds); the family of memory in the fair world, before tasks waited for "
        "who holds it, 10 %, then 2 %.",
    ),
    Section(
        "whatif_live",
        "What if, and then done: predictions before measuring, on a live Spark",
        "Goldszmidt and Isaacs call for interventions and report none. Here one application runs a "
        "hog and three TPC-DS queries at once, `iqcar` predicts from the log as it then is, and "
        "then each intervention is really done: each source removed in turn, the hog later, a "
        "query in a FAIR pool, the hog held by a cap of the plugin, one processor, three slots; on "
        "two standalone workers one host less. Blame as a prediction is the duration less what was "
        "lost to the source; slots only replays recorded durations.",
        whatif_live,
        "The machine was quiet, and the application had run the mix four times before. Even so the "
        "same mix again differs by 5 to 13 % from run to run: no smaller error can be told from "
        "noise. "
        "Large changes are said about right: sources removed, the hog later, a pool of its own, a "
        "cap, one processor for two. Slots were nearly all that was short, so that slots alone "
        "predict most of it as well; not so one processor, which they do not know. Blame predicts "
        "removals nearly as well. Two things are said wrongly. A third slot: the two processors "
        "were busy already with tasks (1.1 of two) and with what runs beside them (0.6: the JVM's "
        "compilers and collectors, the driver), so that nothing was gained; the model says a "
        "seventh less, because what is not processor time (collections, results, scheduling) "
        "still overlaps in it. A lost host: both hosts are one "
        "machine, so that the one left had twice as much of it; the model says twice as long, it "
        "was 1.4 times. On the standalone workers the cap helps the others by more than is said: "
        "with one of two tasks held the shared machine is faster, too. In the first of these runs "
        "the model refused every question: waits that no task explains were left out of the replay "
        "unless they were half of the time. Now they stay where samples show something else on the "
        "processors. Two more changes were made after these figures were seen, and the predictions "
        "computed again from the same logs: a third task leaves its part to what runs beside tasks "
        "(before, a quarter less was said, and the median error was 27 %), and ranges cover how "
        "much runs of the same query differ in the log (before, they held 31 and 20 % of the "
        "reruns). No other figure changed.",
    ),
    Section(
        "quiet_formats",
        "Formats side by side on a live Spark",
        "Five formats are read at once by functions that mostly sleep, so that cores are free; "
        "then two of them are read by functions that compute, beside a query that fills all cores.",
        quiet_formats,
        "What the quiet readers are said to lose is the measured wait for the processor of 15 "
        "tasks on two cores that are mostly idle; the plain log shows less of it.",
    ),
    Section(
        "source_elimination",
        "Source elimination (iQCAR §7.2.1) and simple overlap (§7.4)",
        "The paper takes each of the three most blamed queries out of its run: the victim gains "
        "less each time, as their DOR decreases (figure 8, no numbers), and says that overlap in "
        "time alone blames wrongly (figure 13).",
        source_elimination,
        "The gain falls with DOR among the sources that matter; the last three, each with less "
        "than a tenth of the blame, are within 2 % of each other. Overlap in time says nothing.",
    ),
    Section(
        "rules_efficacy",
        "Rules (iQCAR §7.3)",
        "The paper's scheduler was changed for this. AGG made the top victim 69 % faster (figure "
        "10); DYNP made the target 53 % faster and took 56 % of its slot wait, and the total of "
        "all queries fell by 31 % (figure 11). Here Spark is stock; the plugin applies the rules.",
        rules_efficacy,
        "The culprit pays: it takes longer, because slots are shared out and not made. DYNP for "
        "one victim helps that victim alone; the others stay behind the heavy hitter.",
    ),
    Section(
        "live_rules",
        "Rules while it runs",
        "The authors of iQCAR left a live system as future work. Here an intruder with long tasks "
        "comes twice to an application of short queries: without rules, with rules that an "
        "analysis of the run before proposes, with a cap, and with `iqcar live --apply`, which "
        "starts without any. Tasks mostly sleep, so that slots are all that is short.",
        live_rules,
        "Two runs of each arm on each cluster; other processes' use of the processors disturbed "
        "those of the live loop on embedded Spark, so they have no verdict. A weight helps once "
        "a task of the intruder ends; a strict cap keeps slots free, so that short queries "
        "hardly notice the intruder, who pays: his queries take nearly twice as long. The live "
        "loop needs nine to twelve seconds to its first rule, and the intruder's second visit "
        "finds it there; no rule was taken back and written again.",
    ),
    Section(
        "thrift_tenants",
        "Two tenants of a Thrift server",
        "Two users of one Spark Thrift server, through JDBC, with seconds as `beeline` tells them: "
        "a statement of long tasks on every slot again and again, and a short one beside it; a cap "
        "on the first is written into the rules file while both run, and taken back.",
        thrift_tenants,
        "The rule names the plan of the hog's statement. Spark gives each statement a job group of "
        "its own, and a rule by plan does not tell tenants apart whose statements differ in "
        "constants alone.",
    ),
    Section(
        "bigroots",
        "Causes of stragglers (BigRoots §IV)",
        "The paper injects processor, disk and network load into one of five machines, all three "
        "into one, and all over the cluster (its tables III, IV, V).",
        bigroots,
        "By the paper's rule every overlap counts, also where it delayed nobody: a busy disk and a "
        "task that reads no file, traffic over loopback. Measured waits do not name these, the "
        "paper's method does where the host was busy. The second table leaves them out; its rules "
        "were written after a first look at these runs, where all that measured waits named "
        "wrongly fell on the start of an injection's processes. Edge detection changes nothing "
        "here: a host whose one slot is always taken is never idle before or after a task. "
        "The run needs root and control groups of version 1; `--full` and `--add` score "
        "several runs together.",
    ),
    Section(
        "topics_live",
        "Topics of a live run (after Hound §5)",
        "The paper has no injected truth: it compares topics with what engineers found and with "
        "simulations. Here tasks are even but for a shuffle with three hot keys, and in some "
        "sessions the processor or the disk of one host is loaded from outside Spark; topics see "
        "the event log alone.",
        topics_live,
        "For a busy disk slow input and limited I/O count as its name. Stages of the warm-up are "
        "learned from but not judged. The last column has whom iQCAR blames for what a topic of "
        "that name lacks: nobody in the log, and nobody there was in the way. "
        "Trouble with the disk and planted skew are found nearly pure. Of the trouble with the "
        "processor a fifth is called queueing: an executor that gets less of it is also slower to "
        "tell the driver that a task ended. Where skew and a busy processor meet, both are in the "
        "mixture. Half of the stages without trouble have a straggler by chance, mostly tasks that "
        "were slow to be sent or unpacked. Rare topics mix words that have nothing to do with each "
        "other. No host is advised against: the trouble moved between hosts. The run needs root "
        "and control groups of version 1.",
    ),
    Section(
        "induced_contention",
        "Induced contention (iQCAR §7.2.2)",
        "The paper starts a query that only computes on one host of its target's: the target's "
        "RATP for the processor rises there (figure 9, no numbers). Here a victim has one task on "
        "each of two hosts, and a second application computes, then reads files, on one of them.",
        induced_contention,
        "",
    ),
    Section(
        "induced_memory",
        "Induced memory contention (after iQCAR §7.2.2)",
        "For want of space the paper shows contention that is induced for the processor only. Here "
        "a victim aggregates in a hash table, one task on each of two hosts, and another query of "
        "its application sorts as much as execution memory holds on one of them: Spark shares "
        "execution memory among the tasks of an executor, so that only they can be in the way.",
        induced_memory,
        "Of the time lost to memory, what is not blamed on the hog is blamed on nobody. The hog "
        "sleeps while it holds its memory, and starts while the victim pauses: a hog that grows "
        "beside a running task leaves it half of the memory, and Spark has no wait to show.",
    ),
)


def page(printed: str) -> str:
    """Print the page from the results that are there."""
    lines = ["# Evaluation", printed, INTRODUCTION]
    for section in SECTIONS:
        stored = RESULTS / f"{section.name}.json"
        if stored.is_file():
            result = json.loads(stored.read_text("utf-8"))
            lines += [f"## {section.title}", "", section.paper, ""]
            lines += [f"    .venv/bin/python scripts/experiments/{section.name}.py", ""]
            lines += [section.table(result), ""]
            lines += [section.seen, ""] if section.seen else []
    return "\n".join(lines).rstrip() + "\n"
