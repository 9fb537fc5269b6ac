"""Finds causes of stragglers that recur across stages and queries: topics (after Hound).

    features → jobs → analyses (profiles of metrics) → topics → mixtures, straggler by straggler

In each job (a stage with stragglers) the metrics are looked for that tell of the latency; what
recurs in many jobs is a topic. P. Zheng, B. C. Lee, Hound: Causal Learning for Datacenter-scale
Straggler Diagnosis, SIGMETRICS 2018.
"""
