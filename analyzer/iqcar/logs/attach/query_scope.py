"""Set the name and pool of queries in a PySpark program: ``with iqcar.query("q39b"):``.

The name is set as Spark's job description, which determines the query's fingerprint; the pool is
set as the local property ``spark.scheduler.pool``. Both are properties of a thread. PySpark is
imported when a scope is entered, not before.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from iqcar.errors import IqcarError, UsageError

Function = TypeVar("Function", bound=Callable[..., Any])

DESCRIPTION = "spark.job.description"
"""Spark's property for the description of a job."""

POOL = "spark.scheduler.pool"
"""Spark's property for the scheduler pool of a job."""

_WHERE = "iqcar.query"
_CONNECT = "pyspark.sql.connect."


def query(name: str, pool: str | None = None, *, spark: Any = None) -> QueryScope:
    """Set the name and pool of all jobs that start inside the scope.

    name: name of the query; use the same one in each run, because rules match on it.
    pool: the FAIR pool; by default that of the enclosing scope, if any.
    spark: by default the running session.

    Returns a context manager that also decorates functions.

    Raises UsageError if the name or the pool is not a string, or blank.

    Notes
    -----
    Threads: a ``pyspark.InheritableThread`` started inside inherits the name and the pool. A
    plain thread or a thread pool inherits nothing; pass it a decorated function,
    ``executor.map(iqcar.query("q39b")(work), items)``. Do not await inside a scope in a coroutine:
    other coroutines of the thread would run under the name.

    Job groups are not changed, because programs cancel their jobs by them.

    Spark Connect: a client has no local properties. Name and pool are set on the session instead
    and apply to all its threads until the scope ends. Jobs get both and reports show the name, but
    the SQL execution keeps the description that the server gives it, so its fingerprint remains
    that of its plan.

    Examples
    --------
    >>> with iqcar.query("q39b", pool="gold"):     # doctest: +SKIP
    ...     spark.sql(text).collect()
    """
    for what, value in (("name", name), ("pool", pool)):
        if not (value is None and what == "pool") and (
            not isinstance(value, str) or not value.strip()
        ):
            raise UsageError(f"the {what} of a query must be text, not {value!r}", _WHERE)
    return QueryScope(name, pool, spark)


class QueryScope:
    """The scope that :func:`query` returns; reusable, also in several threads at once."""

    def __init__(self, name: str, pool: str | None, spark: Any) -> None:
        self.name = name
        self.pool = pool
        self._spark = spark
        self._entered = threading.local()

    def __repr__(self) -> str:
        pool = "" if self.pool is None else f", pool={self.pool!r}"
        return f"iqcar.query({self.name!r}{pool})"

    def __enter__(self) -> QueryScope:
        """Set name and pool for this thread.

        Raises IqcarError if no Spark is running, or it cannot keep properties for this thread.
        """
        properties = _properties_of(self._spark)
        wanted = {DESCRIPTION: self.name}
        if self.pool is not None:
            wanted[POOL] = self.pool
        before = {key: properties.get(key) for key in wanted}
        try:
            for key, value in wanted.items():
                properties.set(key, value)
        except BaseException:
            _restore(properties, before, quietly=True)
            raise
        self._stack().append((properties, before))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the previous values; an error raised inside the scope takes precedence."""
        properties, before = self._stack().pop()
        _restore(properties, before, quietly=error is not None)

    def __call__(self, function: Function) -> Function:
        """Return a function that calls ``function`` in this scope, in any thread."""
        kinds = (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
        if any(is_kind(function) for is_kind in kinds):
            raise UsageError(
                "a generator or coroutine runs after its call has returned",
                _WHERE,
                "use `with iqcar.query(...)` inside it",
            )

        @functools.wraps(function)
        def inside(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return inside  # type: ignore[return-value]

    def _stack(self) -> list[tuple[_Properties, dict[str, str | None]]]:
        if not hasattr(self._entered, "stack"):
            self._entered.stack = []
        stack: list[tuple[_Properties, dict[str, str | None]]] = self._entered.stack
        return stack


class _Properties(Protocol):
    """Properties that Spark passes to jobs."""

    def get(self, key: str) -> str | None: ...

    def set(self, key: str, value: str | None) -> None: ...


class _LocalProperties:
    """Local properties of the JVM thread that PySpark pins to this Python thread."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def get(self, key: str) -> str | None:
        value: str | None = self._context.getLocalProperty(key)
        return value

    def set(self, key: str, value: str | None) -> None:
        if self._context._jsc is not None:  # None after stop(): nothing is left to set
            self._context.setLocalProperty(key, value)


class _SessionSettings:
    """Settings of a Spark Connect session, which the server passes to the jobs of queries."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def get(self, key: str) -> str | None:
        value: str | None = self._session.conf.get(key, None)
        return value

    def set(self, key: str, value: str | None) -> None:
        from pyspark.errors import PySparkException

        try:
            if value is None:
                self._session.conf.unset(key)
            else:
                self._session.conf.set(key, value)
        except PySparkException as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise IqcarError(
                f"the Spark Connect server does not let its client set {key}: {reason}",
                _WHERE,
                "use the plugin on the server (spark.iqcar.rules)",
            ) from error


def _restore(properties: _Properties, before: dict[str, str | None], quietly: bool) -> None:
    for key, value in before.items():
        try:
            properties.set(key, value)
        except Exception:
            if not quietly:
                raise


def _properties_of(spark: Any) -> _Properties:
    """Return the properties that jobs of this thread get."""
    try:
        from pyspark import SparkContext
    except ImportError as error:
        raise IqcarError(
            "PySpark is not there", _WHERE, "run this with spark-submit, or pip install pyspark"
        ) from error
    if spark is None:
        # A Connect session first: the active context may belong to a server in this process.
        spark = _connect_session() or SparkContext._active_spark_context
    if spark is None:
        raise IqcarError(
            "no Spark is running here", _WHERE, "make a SparkSession first, or give it as spark="
        )
    if type(spark).__module__.startswith(_CONNECT):
        return _SessionSettings(spark)
    context = getattr(spark, "sparkContext", spark)
    if not isinstance(context, SparkContext):
        raise UsageError(f"a {type(spark).__name__} is no SparkSession", _WHERE)
    if context._jsc is None:
        raise IqcarError("this SparkSession was stopped", _WHERE, "give a running one")
    return _local(context)


def _local(context: Any) -> _LocalProperties:
    from py4j.clientserver import ClientServer

    if not isinstance(context._gateway, ClientServer):
        raise IqcarError(
            "Python threads are not pinned to threads of the JVM: names and pools would get mixed",
            _WHERE,
            "do not set PYSPARK_PIN_THREAD=false",
        )
    return _LocalProperties(context)


def _connect_session() -> Any:
    module = sys.modules.get(f"{_CONNECT}session")
    find = getattr(getattr(module, "SparkSession", None), "getActiveSession", None)
    return find() if find else None
