"""What several test files use: logs, oracles, simulators, Spark programs."""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
"""The folder of the programs that tests hand to Spark."""
