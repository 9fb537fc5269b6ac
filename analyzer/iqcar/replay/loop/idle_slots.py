"""Sum the slot time that stood free in a replay while tasks waited that a cap held back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from iqcar.replay.loop.event_loop import Run
    from iqcar.replay.loop.loop_input import Shares, Slots, Steps, Work


def idle_slot_ms(steps: Steps, work: Work, slots: Slots, shares: Shares, found: Run) -> float:
    """Return the integral of min(free slots, tasks that a strict cap holds back), in ms.

    Parameters
    ----------
    steps, work, slots, shares
        What was replayed.
    found : Run
        What happened.
    """
    if not shares.cap_strict.any():
        return 0.0
    app = shares.pool_app[shares.pool]
    held = shares.cap_of >= 0
    held[held] = shares.cap_strict[shares.cap_of[held]]
    idle = 0.0
    for number in np.unique(app[held]).tolist():
        there, ran = slots.app == number, np.isfinite(found.launched) & np.isfinite(found.ended)
        ran &= app[work.step] == number
        launched, ended = found.launched[ran], found.ended[ran] + slots.handover[number]
        # A further attempt was not there from the beginning: its wait is not counted.
        waits = ran & held[work.step] & (np.arange(len(ran)) < steps.first_late[work.step])
        asked = (found.released + steps.ready)[work.step[waits]]
        asked = np.minimum(asked, found.launched[waits])
        times = [slots.when[there], launched, ended, asked, found.launched[waits]]
        free = [slots.change[there], -np.ones(len(launched)), np.ones(len(ended))]
        behind = [np.ones(len(asked)), -np.ones(len(asked))]
        none = [np.zeros(len(one)) for one in times]
        when = np.concatenate(times)
        order = np.argsort(when, kind="stable")
        free_slots = np.cumsum(np.concatenate([*free, *none[3:]])[order])
        waiting = np.cumsum(np.concatenate([*none[:3], *behind])[order])
        both = np.minimum(free_slots, waiting)[:-1]
        idle += float((np.maximum(both, 0.0) * np.diff(when[order])).sum())
    return idle
