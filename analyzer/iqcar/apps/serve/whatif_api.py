"""What-if questions asked live: as JSON, and what a form sends."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeVar, cast

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.endpoints import GONE, REFUSED, WHAT_IF, endpoint
from iqcar.apps.serve.handling import service_of
from iqcar.apps.serve.questions import Asked
from iqcar.apps.serve.responses import JSONResponse, Problem, problem
from iqcar.apps.serve.schemas import Key
from iqcar.apps.serve.service import Service
from iqcar.errors import UsageError
from iqcar.replay.whatif.question import parse_request
from iqcar.replay.whatif.question_parts import PARTS, SEVERAL, Part, PartKind

ANSWER_S = 20.0
"""Seconds that a request waits for its answer; a model of 10,000 tasks is made in less."""

NAMES = tuple(PARTS)
Apps = Annotated[
    list[Key],
    Meta(min_length=1, max_length=32, description="Applications that are replayed together."),
]


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is asked, as the options of `iqcar whatif` say it; several are one joint change."""

    def given(self) -> dict[str, Any]:
        """What is asked, as :func:`iqcar.replay.whatif.question.parse_request` takes it."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name)}

    def check(self) -> None:
        """Check the values; raises UsageError as the command does."""
        if not self.given():
            raise UsageError("nothing to change", "", "give remove, slots or another change")
        parse_request(**self.given())


class ChangesOfApps(Changes, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question in an address."""

    app: Apps


class ChangesOfLogs(Changes, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question about applications, whose logs are replayed together."""

    SAYS: ClassVar[str] = "what to change"

    applications: Apps


def _field(name: str, part: Part) -> tuple[str, Any, Any]:
    """Lay out a part of a question as a field: its name, type and default."""
    how = f"`{part.in_help}`: {part.help}" if part.metavar else part.help
    meta = Meta(description=how)
    if part.kind is PartKind.BY_APPLICATION:
        return name, Annotated[str | list[str], meta], ""
    if part.kind in SEVERAL:
        return name, Annotated[list[str], meta], msgspec.field(default_factory=list)
    if part.kind is PartKind.FLAG:
        return name, Annotated[bool, meta], False
    return name, Annotated[str, meta], ""


C = TypeVar("C", bound=Changes)


def _with_parts(name: str, base: type[C]) -> type[C]:
    """Make a struct that has a field for each part of a question."""
    made = msgspec.defstruct(
        name,
        [_field(*row) for row in PARTS.items()],
        bases=(base,),
        namespace={"__doc__": base.__doc__},
        module=__name__,
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    return cast("type[C]", made)


AskedChanges = _with_parts("Changes", Changes)
WhatIfForm = _with_parts("WhatIfForm", ChangesOfApps)
WhatIfWish = _with_parts("WhatIfWish", ChangesOfLogs)


class WhatIfProgress(msgspec.Struct, frozen=True):
    """How far the answer to a question is."""

    state: Annotated[
        State | None, Meta(description="Running, done or failed; null: nobody has asked.")
    ]
    phase: Annotated[str, Meta(description="What is being done; empty before and after.")]
    share: Annotated[float, Meta(ge=0, le=1, description="How far the reading is.")]
    message: Annotated[str, Meta(description="Why it failed; empty if it did not.")]


def what_if_progress(service: Service, keys: list[str], changes: Changes) -> WhatIfProgress:
    """Lay out how far an answer is."""
    asked, model = service.asked(keys, changes.given())
    running = asked is not None and asked.state is State.RUNNING
    return WhatIfProgress(
        state=asked.state if asked else None,
        phase=model.phase if model and running else "",
        share=model.share if model and running else 0.0,
        message=asked.message if asked else "",
    )


@endpoint(
    "GET /api/whatif",
    "getWhatIf",
    "How far the answer to a what-if question is.",
    {200: ("How far it is.", WhatIfProgress), 404: GONE},
    given=WhatIfForm,
)
async def progress(request: Request, form: ChangesOfApps) -> WhatIfProgress:
    """Answer with how far a question is."""
    return what_if_progress(service_of(request), form.app, form)


@endpoint(
    "POST /api/whatif",
    "askWhatIf",
    "Predict how long queries would have taken if something had been different. The first "
    "question about a log takes as long as analysing it; ask again until it is answered. One "
    "that nobody asks about for 2 minutes is stopped.",
    {
        200: ("The answer, as `iqcar whatif --json` writes it.", WHAT_IF),
        202: ("It is being worked on: ask again.", WhatIfProgress),
        409: ("There is no answer; the detail says why.", Problem),
        **REFUSED,
    },
    given=WhatIfWish,
)
async def ask_live(request: Request, wish: ChangesOfLogs) -> Response:
    """Ask a question, and wait a while for its answer."""
    service = service_of(request)
    asked = await asked_live(service, wish.applications, wish, ANSWER_S)
    if asked.state is State.RUNNING:
        return JSONResponse(what_if_progress(service, wish.applications, wish), 202)
    if asked.state is State.DONE:
        return Response(asked.json, media_type="application/json")
    return problem(400 if asked.wrong else 409, asked.message)


async def asked_live(service: Service, keys: list[str], changes: Changes, wait_s: float) -> Asked:
    """Ask, and wait some time for the answer; raises UsageError with what is wrong."""
    changes.check()
    asked = service.ask(keys, changes.given())
    await asked.wait(wait_s)
    return asked
