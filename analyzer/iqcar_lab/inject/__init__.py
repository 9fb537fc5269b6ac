"""Injects anomalies into a host: bounded and logged load with known times, to test a diagnosis.

BigRoots (section IV-A) verifies its causes by launching "resource hogging programs" on chosen hosts
and scoring what it says against what was injected. Here an *injection* is one anomaly (cpu, io,
network or memory) on one host over one interval, a *hog* is one process of it, and a *plan* is a
list of injections. Hogs end by themselves at their time, when they are told to, and when the
process that started them is gone.

What a program needs is in `plan`, `run_plan`, `random_plans` and `injection_log`.
"""
