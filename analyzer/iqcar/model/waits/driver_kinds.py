"""Names when a query waited for its driver, and what the driver did there."""

from __future__ import annotations

from iqcar.enums import Kind


class DriverPart(Kind):
    """When a query waited for its driver: no stage of it ran, and no task waited for a slot."""

    BEFORE_FIRST_JOB = "before_first_job", "From its start to its first stage."
    BETWEEN_JOBS = "between_jobs", "Between two of its stages."
    AFTER_LAST_TASK = "after_last_task", "From the end of its last task to its end."

    @property
    def words(self) -> str:
        """What it is called in reports."""
        return _DRIVER_WORDS[self]


class DriverWork(Kind):
    """What a driver did while a query waited for it."""

    ANALYSIS = "analysis", "Parsing, and resolving names in the catalog, which may list files."
    OPTIMIZATION = "optimization", "Rewriting the plan."
    PLANNING = "planning", "Choosing the physical plan, and preparing it."
    SCHEDULING = (
        "scheduling",
        "Within its jobs: submitting stages and handling ends of tasks, of all queries in turn.",
    )
    COMPILING = "compiling", "Compiling generated code, of all queries at that time."
    LISTING = "listing", "Finding the files to read, and asking for their sizes."
    BROADCAST = "broadcast", "Building the small side of a join, and sending it out."
    COMMIT = "commit", "Moving what was written to its place."
    OTHER = (
        "other",
        "Not recorded: adaptive planning; without the plugin all planning and compiling.",
    )

    @property
    def words(self) -> str:
        """What it is called in reports."""
        return _DRIVER_WORDS[self]


_DRIVER_WORDS: dict[DriverPart | DriverWork, str] = {
    DriverPart.BEFORE_FIRST_JOB: "before its first stage",
    DriverPart.BETWEEN_JOBS: "between stages",
    DriverPart.AFTER_LAST_TASK: "after its last task",
    DriverWork.ANALYSIS: "analysing",
    DriverWork.OPTIMIZATION: "optimising",
    DriverWork.PLANNING: "planning",
    DriverWork.SCHEDULING: "scheduling stages",
    DriverWork.COMPILING: "compiling generated code",
    DriverWork.LISTING: "listing files",
    DriverWork.BROADCAST: "broadcasting",
    DriverWork.COMMIT: "committing output",
    DriverWork.OTHER: "not recorded",
}
