"""Write the profiles that plain scikit-learn base learners give for one fixed trace.

    .venv/bin/python scripts/experiments/topic_reference.py

AdaBoost takes it two seconds of a core a job. `tests/causes/topics/test_topic_reference.py`
compares with the file (`tests/support/reference_profiles.npz`) and makes some of its jobs again.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.topic_result import TopicSettings
from tests.support import reference_hound
from tests.support.hound_traces import plant


def main() -> None:
    """Look at every job with all three learners."""
    planted = plant(reference_hound.JOBS, reference_hound.SEED)
    jobs = Jobs.from_tasks(planted.features, TopicSettings())
    found = []
    for job in range(len(jobs)):
        with warnings.catch_warnings():
            # Some of the bags' nets end before they are within scikit-learn's tolerance.
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append(reference_hound.profiles(*jobs.known(job)))
        print(f"{job + 1} of {len(jobs)}", end="\r", file=sys.stderr, flush=True)
    np.savez_compressed(
        reference_hound.KEPT,
        stage=jobs.stage.astype(np.int32),
        profiles=np.array(found).transpose(1, 0, 2).astype(np.float32),
    )


if __name__ == "__main__":
    main()
