"""The experiments of docs/evaluation.md: the question, what the paper did, and what was seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import headlines
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

Print = Callable[[dict[str, Any]], str]
"""Prints a stored result as Markdown."""


@dataclass(frozen=True)
class Section:
    """One experiment."""

    name: str
    title: str
    paper: str
    table: Print
    seen: str
    """What is to be said of the result, failures included."""
    headline: Print | None = None
    """One short table for the page of results; the whole then has a page of its own."""
    answer: str = ""
    """How to read the short table, and what it says."""


SECTIONS = (
    Section(
        "quiet_clusters",
        "Is nothing blamed where nothing is short?",
        "The papers do not ask this. Here clusters are simulated, and each query is also simulated "
        "alone, which gives the true loss. Quiet clusters have formats of different speed, uneven "
        "fetches, a page cache, skew, garbage collection, a slow host, sleeping and Python "
        "functions. Loud clusters run the same queries with less of a resource, or beside a hog. "
        "Every wait for disk and network has log-normal noise.",
        quiet_clusters,
        "Where nothing is short, nothing is said to be lost. Where something is short, the mean "
        "loss is right; for a single query it is off by 8 % of its run, most beside a hog and "
        "where tasks differ much in size. A plain log hides most of what a processor hog costs a "
        "query whose functions sleep.",
        headlines.quiet_clusters,
        "Simulated clusters, quiet and loud, without noise and with the most noise tried. True and "
        "said: mean share of its run that a query lost to other queries. Worst: the most said of "
        "one query. Error: mean absolute difference.",
    ),
    Section(
        "loud_ranking",
        "Is the worst culprit blamed first?",
        "Figure 8 of iQCAR removes sources in the order of their blame. Here every query is "
        "removed from every loud cluster of the section before; the gain is the truth. Most "
        "culprits there are alike, and chance decides which of them costs a little more. So the "
        "truth is also compared with a second truth: the same queries with other sizes of tasks. "
        "The oracle knows own rates, capacities, and what every task moved in which device at "
        "every moment, and shares out the loss in proportion. What the oracle misses, no "
        "attribution can tell; only a simulation of the removal can.",
        loud_ranking,
        "Blame ranks as well as the oracle, and as well as the second truth. Of the culprits that "
        "are ahead by more than chance, 96 % come first. Of the pairs that differ by more than "
        "chance, the oracle orders a few more correctly, most of them beside a slow host. Until "
        "blame counted what a source moved instead of its time in the device, τ was 0.64, and "
        "0.37 where slow formats stood beside a hog.",
        headlines.loud_ranking,
        "Rankings of culprits against the gain of removing each: by blame (said), by the gains "
        "with other sizes of tasks (other luck), and by an oracle of every transfer. τ: Kendall's "
        "τ-b. Top-1: how often the worst culprit comes first. False: share of the "
        "blame on queries that cost less than 2 %. Clear: only pairs that differ by more than "
        "chance, with their number.",
    ),
    Section(
        "quiet_formats",
        "Are slow formats blamed on a live Spark?",
        "Five formats are read at once by functions that mostly sleep, so that cores are free. "
        "Then two of them are read by functions that compute, beside a query that fills all cores.",
        quiet_formats,
        "The loss of the quiet readers is the measured wait for the processor of 15 tasks on two "
        "cores that are mostly idle. The plain log shows less of it.",
    ),
    Section(
        "source_elimination",
        "Does removing the most blamed query help most? (iQCAR §7.2.1, §7.4)",
        "The paper takes each of the three most blamed queries out of its run. The victim gains "
        "less each time, as their DOR decreases (figure 8, no numbers). It also says that overlap "
        "in time alone blames wrongly (figure 13).",
        source_elimination,
        "The gain falls with DOR among the sources that matter. The last three have less than a "
        "tenth of the blame each, and their gains are within 2 % of each other. Overlap in time "
        "does not rank sources.",
    ),
    Section(
        "induced_contention",
        "Is induced contention seen where it is? (iQCAR §7.2.2)",
        "The paper starts a query that only computes on one host of its target: the target's RATP "
        "for the processor rises there (figure 9, no numbers). Here a victim has one task on each "
        "of two hosts. A second application computes, then reads files, on one of them.",
        induced_contention,
        "",
    ),
    Section(
        "induced_memory",
        "Is induced memory contention seen? (after iQCAR §7.2.2)",
        "The paper shows induced contention for the processor only. Here a victim aggregates in a "
        "hash table, one task on each of two hosts. Another query of its application sorts as much "
        "as execution memory holds, on one of them. Spark shares execution memory among the tasks "
        "of an executor, so only tasks of the same application can contend for it.",
        induced_memory,
        "Of the time lost to memory, what is not blamed on the hog is blamed on nobody. The hog "
        "sleeps while it holds its memory, and starts while the victim pauses. A hog that grows "
        "beside a running task leaves it half of the memory, and Spark has no wait to show.",
    ),
    Section(
        "bigroots",
        "Are injected causes of stragglers found? (BigRoots §IV)",
        "The paper injects processor, disk and network load into one of five machines, all three "
        "into one, and all over the cluster (its tables III, IV, V).",
        bigroots,
        "The paper's rule counts every overlap, also one that delayed nobody: a busy disk and a "
        "task that reads no file, or traffic over loopback. Measured waits do not name these; the "
        "paper's method names them where the host was busy. The second table leaves them out. Its "
        "rules were written after a first look at these runs, in which everything that measured "
        "waits named wrongly fell on the start of an injection's processes. Edge detection changes "
        "nothing here, because a host whose one slot is always taken is never idle before or after "
        "a task. The run needs root and control groups of version 1; `--full` and `--add` score "
        "several runs together.",
        headlines.bigroots,
        "Rates of true and false positives, and accuracy, of each method. The first three columns "
        "count every injection that overlaps a straggler, as the paper does. The last three count "
        "only injections that could delay it.",
    ),
    Section(
        "topics_live",
        "Do topics name what made tasks slow? (after Hound §5)",
        "The paper has no injected truth: it compares topics with what engineers found and with "
        "simulations. Here tasks are even but for a shuffle with three hot keys. In some sessions "
        "the processor or the disk of one host is loaded from outside Spark. Topics see only the "
        "event log.",
        topics_live,
        "For a busy disk, the topics slow input and limited I/O count as its name. Stages of the "
        "warm-up are learned from but not judged. The last column says whom iQCAR blames for the "
        "resource that a topic of that name lacks: nobody, which is right, because nobody in the "
        "log was in the way. Topics of a busy disk and of planted skew are nearly pure. A fifth of "
        "the trouble with the processor is called queueing: an executor with less processor time "
        "is also slower to tell the driver that a task ended. Where skew and a busy processor "
        "meet, the mixture has both. Half of the stages without trouble have a straggler by "
        "chance, mostly tasks that were slow to be sent or unpacked. Rare topics mix unrelated "
        "words. No host is advised against, because the trouble moved between hosts. The run needs "
        "root and control groups of version 1.",
        headlines.topics_live,
        "Planted trouble, and the topics of its stages and stragglers. Mostly named so: stages "
        "whose mixture consists mostly of topics of that name.",
    ),
    Section(
        "whatif_truth",
        "How far off are what-if answers on simulated clusters?",
        "Goldszmidt and Isaacs evaluate nothing. Here clusters are simulated, one thing is changed "
        "as each kind of question says, and the simulation is repeated: its result is the truth. "
        "Families of runs have one short device, two culprits, two applications, few slots, uneven "
        "tasks and garbage collection, 12 to 20 mixed queries, a busy day in three shared FAIR "
        "pools, sessions that run their queries one after another, and tasks that hold execution "
        "memory. The fair world shares as the model does. The rough world breaks the model's "
        "assumptions: devices share in proportion, disks slow down with more streams, cores have "
        "two threads, tasks do different work in each round, and tasks want memory in the middle "
        "of their work. Blame as a prediction is the duration less what was lost. Slots only "
        "replays recorded durations.",
        whatif_truth,
        "Nothing was tuned on these seeds. Where one device or the slots are short, answers are "
        "off by 1 to 3 % (median), and ranges hold what they should. Where many queries share few "
        "slots, the order in which slots are handed out is chaotic: the mixed families are off by "
        "4 to 5 %, and a third of the small changes by a later start has the wrong sign. On the "
        "rough busy day half of the pairs are refused, most of them short queries. Half as many "
        "slots, and lost hosts, change most and are off most. In the rough world the 80 % ranges "
        "hold 71 %. They hold least where processors are halved, because the model takes two "
        "threads of a core for two cores, and where tasks want memory late. There a quarter of the "
        "pairs is refused; where waits stay as they were, removals are off by up to most of the "
        "duration. Blame names the top source of removals as often in the rough world. Median "
        "errors before and after three changes: questions about executors, until these were taken "
        "as whole, 27 %, then 6 %; sessions, until the replay ran their queries one after another, "
        "10 %, then 4 % (both on other seeds); the family of memory in the fair world, until tasks "
        "waited for whoever holds it, 10 %, then 2 %.",
        headlines.whatif_truth,
        "Median and 90 % quantile of the error, in % of the recorded duration. Sign: share whose "
        "direction was said. Within: share that is off by less than 10 %. τ and top: how well "
        "removals are ranked, and how often the worst culprit comes first.",
    ),
    Section(
        "whatif_live",
        "How far off are what-if answers on a live Spark?",
        "Goldszmidt and Isaacs call for interventions and report none. Here one application runs a "
        "hog and three TPC-DS queries at once, and `iqcar` predicts from its log. Then each "
        "intervention is really done: each source removed in turn, the hog later, a query in a "
        "FAIR pool, the hog held by a cap of the plugin, one processor, three slots; and on two "
        "standalone workers one host less. Blame as a prediction is the duration less what was "
        "lost to the source. Slots only replays recorded durations.",
        whatif_live,
        "The machine was quiet, and the application had run the mix four times before. Even so, "
        "the same mix differs by 5 to 13 % from run to run: a smaller error cannot be told from "
        "noise. Large changes are predicted about right: sources removed, the hog later, a pool of "
        "its own, a cap, one processor for two. Nearly nothing but slots was short, so slots alone "
        "predict most of it as well; they do not know processors, and miss that change. Blame "
        "predicts removals nearly as well. Two predictions are wrong. A third slot gained nothing, "
        "because the two processors were busy with tasks (1.1 of two) and with what runs beside "
        "them (0.6: the JVM's compilers and collectors, the driver). The model says a seventh "
        "less, because what is not processor time (collections, results, scheduling) still "
        "overlaps in it. A lost host: both hosts are one machine, so the one that was left had "
        "twice as much of it; the model says twice as long, measured was 1.4 times. On the "
        "standalone workers the cap helps the others more than predicted, because the shared "
        "machine is faster with one of two tasks held. In the first of these runs the model "
        "refused every question, because the replay left out waits that no task explains unless "
        "they were half of the time. Now they stay where samples show other use of the processors. "
        "Two more changes were made after these figures were seen, and the predictions were "
        "computed again from the same logs. A third task now leaves its part to what runs beside "
        "tasks; before, a quarter less was predicted, and the median error was 27 %. Ranges now "
        "cover how much runs of the same query differ in the log; before, they held 31 and 20 % of "
        "the reruns. No other figure changed.",
        headlines.whatif_live,
        "Median and 90 % quantile of the error, in % of the recorded duration: of the model, and "
        "of two plain predictions, that nothing changes and that only slots count. The first row "
        "of a cluster repeats the same mix: that much runs differ by themselves.",
    ),
    Section(
        "rules_efficacy",
        "Do rules help the victims? (iQCAR §7.3)",
        "The paper changed the scheduler for this. AGG made the top victim 69 % faster (figure "
        "10). DYNP made the target 53 % faster and took 56 % of its slot wait, and the total of "
        "all queries fell by 31 % (figure 11). Here Spark is stock, and the plugin applies the "
        "rules.",
        rules_efficacy,
        "The culprit pays: it takes longer, because slots are shared out and not made. DYNP for "
        "one victim helps that victim alone; the others stay behind the heavy hitter.",
    ),
    Section(
        "live_rules",
        "Do rules help that are written while the application runs?",
        "The authors of iQCAR left a live system as future work. Here an intruder with long tasks "
        "comes twice to an application of short queries: without rules, with rules that an "
        "analysis of the run before proposes, with a cap, and with `iqcar live --apply`, which "
        "starts without any. Tasks mostly sleep, so that only slots are short.",
        live_rules,
        "Each arm ran twice on each cluster. On embedded Spark other processes disturbed the runs "
        "of the live loop, so these have no verdict. A weight helps once a task of the intruder "
        "ends. A strict cap keeps slots free, so that short queries hardly notice the intruder; "
        "the intruder pays, and its queries take nearly twice as long. The live loop needs nine to "
        "twelve seconds to its first rule, and the rule is there when the intruder comes again. No "
        "rule was taken back and written again.",
        headlines.live_rules,
        "Short queries that came while the intruder was there; without intruder; and what the "
        "intruder's own queries took.",
    ),
    Section(
        "thrift_tenants",
        "Can one tenant of a Thrift server be capped?",
        "Two users of one Spark Thrift server run statements through JDBC, with seconds as "
        "`beeline` tells them. One repeats a statement of long tasks on every slot; the other runs "
        "a short one beside it. A cap on the first is written into the rules file while both run, "
        "and taken back.",
        thrift_tenants,
        "The rule names the plan of the hog's statement. Spark gives each statement a job group of "
        "its own. A rule by plan does not tell tenants apart whose statements differ in constants "
        "alone.",
    ),
    Section(
        "compare_pairs",
        "Does compare find planted changes in simulated runs?",
        "Spectroscope was judged on a storage system with problems of known causes. Here clusters "
        "are simulated before and after a change: more data, slower code, partitions, a plan, "
        "skew, spilling, a slow disk, host or processor, a new neighbour, several at once, or "
        "nothing but names. The effect on a query is the difference to the same runs simulated "
        "again without the change. There are 1 to 8 runs a side. The printed method gets half of "
        "the runs of a side as its structural threshold, and the root of its tree as cause.",
        compare_pairs,
        "The rules and the simulator have one author, so the scores of causes are an upper bound "
        "for a real cluster. With one run a side a slow host is missed where time grows by less "
        "than about three times. Weakest are the causes where a neighbour runs in the same "
        "application.",
        headlines.compare_pairs,
        "Our method and the printed one over all pairs; means. Coverage: part of all effects that "
        "lies in the queries found. ρ: rank correlation of contribution and effect. Kind and "
        "cause: of queries that were found, those explained correctly. Alarms: quiet pairs with "
        "any finding.",
    ),
    Section(
        "compare_live",
        "Does compare find one change on a live Spark?",
        "The paper's case studies are problems of real systems, found by people. Here an embedded "
        "Spark runs queries of TPC-DS, a sort of all sales and a Python function over some, one "
        "after another in a fresh JVM. One thing is changed at a time, and `iqcar.compare` is told "
        "nothing of it.",
        compare_live,
        "Every cause but one is the planted one; a version is named beside what it changed. The "
        "exception: the driver of a short query shares its cores with the new application, and no "
        "record says what a driver waits for. Missed are changes of 6 to 18 %. The means of three "
        "or four equal runs differ by as much here, so some of them are no effect of the change "
        "(less memory makes nothing faster). The false alarm is a sort that collected less "
        "garbage, presumably because the queries before it had other plans. Of sets that were not "
        "measured in turns, one in eight pairs differs, mostly as an environment: another program "
        "ran for a while during the first. The rules were mended on earlier runs of the same "
        "changes (one a side, in other noise). One was mended on these runs: a path that Spark "
        "cuts names no table. Before, all queries of moved data were said to have another plan.",
        headlines.compare_live,
        "One row for each change. Its queries: those that the change concerns and whose mean time "
        "changed. Found and false alarms: queries that are listed as changed.",
    ),
)
