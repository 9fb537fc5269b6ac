"""Answers agents: each tool looks applications up, waits for their results, and tells of them."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from iqcar.apps.mcp import slices
from iqcar.apps.mcp.slices import bounded
from iqcar.apps.serve.analyses import Analysis, State
from iqcar.apps.serve.api import AskedChanges, StoreQuery, answered, asked_live
from iqcar.apps.serve.applications import Wanted, select
from iqcar.apps.serve.cache import PAGE, RESULT
from iqcar.apps.serve.endpoints import list_of
from iqcar.apps.serve.service import Service
from iqcar.errors import IqcarError
from iqcar.replay.whatif.question_parts import PARTS, PartKind

WAIT_S = 25.0
"""Seconds that a call waits for a result; most clients give a call a minute."""
MOST_REPORT = 256_000
"""Characters of a report given to an agent: of a usual log some 100,000."""
LOOK_S = 0.1
"""Seconds between two looks at what is waited for."""
FIRST_LOOK_S = 10.0
"""Seconds that the first call waits until the folders were looked through."""

Applications = Annotated[
    list[str],
    Field(
        min_length=1,
        max_length=32,
        description="Keys from list_applications, or application ids. Several are analysed "
        "together, so that those that ran at the same time are blamed on each other.",
    ),
]
Query = Annotated[str, Field(description="A query's id or name, as `queries` lists them.")]
PageNumber = Annotated[int, Field(ge=1, description="Page of the list, from 1.")]


def _described() -> str:
    """Tell what each part of a what-if question is and how it is written."""
    said = []
    for name, part in PARTS.items():
        how = {
            PartKind.NAMES: f"[{part.metavar}]",
            PartKind.BY_QUERY: f"['{part.metavar}']",
            PartKind.BY_POOL: f"['{part.metavar}']",
            PartKind.BY_APPLICATION: " or ".join(
                [*(f"'{each}'" for each in part.forms[:-1]), f"['{part.forms[-1]}']"]
            ),
            PartKind.VALUE: " or ".join(f"'{each}'" for each in part.metavar.split("|")),
            PartKind.FLAG: "true",
        }[part.kind]
        said.append(f"{name} {how} ({part.help.rstrip('.')})")
    return ", ".join(said)


class Tools:
    """What agents can ask, of a service as of ``iqcar serve``; nothing is changed by it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def list_applications(
        self,
        search: Annotated[
            str, Field(max_length=200, description="Words that all occur in name, id or user.")
        ] = "",
        page: PageNumber = 1,
    ) -> dict[str, Any]:
        """List the applications whose event logs are here, the newest first."""
        service = self._service
        await self._look()
        wanted = Wanted(q=search, page=page, size=20)
        listed = list_of(select(service.listing.applications(), wanted), service)
        rows = msgspec.to_builtins(listed)
        # Its texts are shortened, but no row is left out: it is one page already.
        return {**rows, "applications": [bounded(one) for one in rows["applications"]]}

    async def diagnose(self, applications: Applications) -> dict[str, Any]:
        """Diagnose applications: what would save time, and who lost how much to whom, and where.

        The first diagnosis of a large log takes longer than a call waits: call again.
        """
        return await self._of_result(applications, slices.overview)

    async def queries(
        self,
        applications: Applications,
        search: Annotated[str, Field(description="Words that all occur in id or name.")] = "",
        page: PageNumber = 1,
    ) -> dict[str, Any]:
        """List the queries of applications by the time that they lost to others."""
        return await self._of_result(applications, lambda all: slices.queries(all, search, page))

    async def blame(self, applications: Applications, query: Query) -> dict[str, Any]:
        """Tell what one query waited for, with the evidence, and whom each wait is blamed on."""
        return await self._of_result(applications, lambda all: slices.blame(all, query))

    async def stragglers(
        self,
        applications: Applications,
        query: Annotated[str, Field(description="Only of this query.")] = "",
        page: PageNumber = 1,
    ) -> dict[str, Any]:
        """Tell which tasks were far slower than their peers, and why."""
        return await self._of_result(applications, lambda all: slices.stragglers(all, query, page))

    async def topics(self, applications: Applications) -> dict[str, Any]:
        """Tell what keeps making tasks slow across queries and jobs."""
        return await self._of_result(applications, slices.topics)

    async def rules(self, applications: Applications, page: PageNumber = 1) -> dict[str, Any]:
        """Propose scheduler rules and advice, each with its expected effect."""
        return await self._of_result(applications, lambda all: slices.rules(all, page))

    async def compare(
        self, before: Applications, after: Applications, page: PageNumber = 1
    ) -> dict[str, Any]:
        """Find what changed between two sets of runs, by how much, and why."""
        service = self._service
        sides = await self._keys(before), await self._keys(after)
        compared = service.compare(*sides)
        pending = await self._wait(compared.analysis, lambda: service.compared(*sides).state)
        if pending is not None:
            return pending
        return slices.changes(await self._read(service.compared(*sides).result), page)

    async def what_if(
        self,
        applications: Applications,
        changes: Annotated[
            dict[str, Any],
            Field(
                description="What is changed, as options of `iqcar whatif` say it: "
                f"{_described()}; Q is a query's name, APP an application's id or name. "
                "Several are one joint change, but a plan or blame is asked alone."
            ),
        ],
        page: PageNumber = 1,
    ) -> dict[str, Any]:
        """Predict how long queries would have taken if something had been different."""
        try:
            wanted = msgspec.convert(changes, AskedChanges)
        except msgspec.ValidationError as error:
            raise IqcarError(str(error), "changes", "see the description of this tool") from error
        asked = await asked_live(self._service, await self._keys(applications), wanted, WAIT_S)
        if (pending := await self._wait(asked.analysis, lambda: asked.state, 0.0)) is not None:
            return pending
        return slices.what_if(await self._read(asked.result), page)

    async def history(
        self,
        question: Annotated[
            Literal["top", "who", "trend", "changes"],
            Field(
                description="top: aggressive queries, slow nodes, hot resources and causes of "
                "stragglers by period; who: who lost to whom; trend: the runs of one query; "
                "changes: when recurring queries became slower or faster for good, in which "
                "stages, and what else changed then."
            ),
        ],
        query: Annotated[str, Field(description="Name or fingerprint, for trend.")] = "",
        by: Annotated[
            str, Field(description="For who: query, user, pool, application or a Spark property.")
        ] = "query",
        period: Annotated[str, Field(description="For top: day, week, month or all.")] = "month",
        since: Annotated[str, Field(description="First day, YYYY-MM-DD.")] = "",
        until: Annotated[str, Field(description="Last day.")] = "",
        cluster: Annotated[str, Field(description="Only this cluster.")] = "",
        page: PageNumber = 1,
    ) -> dict[str, Any]:
        """Tell what happened over weeks and months, from a store of many applications."""
        try:
            wanted = msgspec.convert(
                {"query": query, "by": by, "period": period, "since": since, "until": until,
                 "cluster": cluster},
                StoreQuery,
            )  # fmt: skip
        except msgspec.ValidationError as error:
            raise IqcarError(str(error)) from error
        content = await answered(self._service, question, wanted)
        return slices.history(msgspec.json.decode(content), page)

    async def report(self, key: str) -> str:
        """Return the report of an application as an HTML page."""
        keys = await self._keys([key])
        if (pending := await self._analysed(keys)) is not None:
            raise IqcarError(f"the analysis is {pending['state']}", key, "read it again later")
        page = (await self._kept(self._service.standing(keys).result, PAGE)).decode()
        if len(page) > MOST_REPORT:
            raise IqcarError(
                f"the report has {len(page):,} characters; at most {MOST_REPORT:,} are given here",
                key,
                "call diagnose and queries, or have a person open it in iqcar serve",
            )
        return page

    async def _of_result(
        self, applications: list[str], answer: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Answer from the result of analysing applications together."""
        keys = await self._keys(applications)
        if (pending := await self._analysed(keys)) is not None:
            return pending
        return answer(await self._read(self._service.standing(keys).result))

    async def _analysed(self, keys: list[str]) -> dict[str, Any] | None:
        """Wait for the analysis of applications; return how far it is if that takes long."""
        service = self._service
        analysis = service.analyse(keys).analysis
        return await self._wait(analysis, lambda: service.standing(keys).state)

    async def _wait(
        self,
        analysis: Analysis | None,
        state: Callable[[], State | None],
        most_s: float = WAIT_S,
    ) -> dict[str, Any] | None:
        until = time.monotonic() + most_s
        while (now := state()) in (State.QUEUED, State.RUNNING) and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)
        if now is State.DONE:
            return None
        if analysis is None or now in (State.QUEUED, State.RUNNING):
            return _pending(
                str(now or State.QUEUED),
                analysis.phase if analysis else "",
                analysis.share if analysis else 0.0,
            )
        raise IqcarError(analysis.message or f"the analysis is {now}")

    async def _read(self, digest: str | None) -> dict[str, Any]:
        content = await self._kept(digest, RESULT)
        result: dict[str, Any] = await asyncio.to_thread(msgspec.json.decode, content)
        return result

    async def _kept(self, digest: str | None, name: str) -> bytes:
        content = await asyncio.to_thread(self._service.cache.read, digest or "", name)
        if content is None:
            raise IqcarError("the result is not kept any more", "", "ask again")
        return await asyncio.to_thread(gzip.decompress, content)

    async def _look(self) -> None:
        """Have the folders looked through, and wait a while for the first lines of all logs."""
        self._service.listing.look_again()
        until = time.monotonic() + FIRST_LOOK_S
        while self._service.listing.unread and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)

    async def _keys(self, given: list[str]) -> list[str]:
        """Keys of applications that are named by key or by application id."""
        listing = self._service.listing
        if not all(listing.get(name) for name in given):
            await self._look()
        found = []
        for name in given:
            one = listing.get(name)
            same = [each for each in listing.applications() if each.application_id == name]
            if one is None and not same:
                advice = "list_applications tells the keys"
                raise IqcarError("there is no such application", str(bounded(name)), advice)
            found += [one.key] if one is not None else [each.key for each in same]
        return list(dict.fromkeys(found))


def _pending(state: str, phase: str, share: float) -> dict[str, Any]:
    return {
        "state": state,
        "phase": phase,
        "share": share,
        "advice": "this takes longer than a call waits: call again with the same arguments",
    }
