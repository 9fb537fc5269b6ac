"""Finds causes of stragglers that recur across stages and queries: topics (Hound).

    features → jobs → analyses (causality profiles) → topics per model → ensemble → mixtures

Each job (a stage with stragglers) is looked at by three kinds of base learners; what recurs in
many jobs is a topic, and stays one if several kinds of learners found it. P. Zheng, B. C. Lee,
Hound: Causal Learning for Datacenter-scale Straggler Diagnosis, SIGMETRICS 2018.
"""
