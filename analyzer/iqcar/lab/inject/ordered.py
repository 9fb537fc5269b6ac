"""Carry out one injection that standard input orders, until its time or the end of the input.

The other end of ``iqcar experiment`` on another host: where the connection is lost, the input
ends, and the hogs with it.
"""

from __future__ import annotations

import os
import signal
import threading

from iqcar.lab.inject.injection_log import Record
from iqcar.lab.inject.plan import read_order
from iqcar.lab.inject.run_plan import Stop, run, stopping

MOST_ORDER_BYTES = 1 << 20


def carry_out_order(order_from: int = 0, tell_to: int = 1) -> int:
    """Read an order, a line of JSON, and write each record of its injection as such a line.

    Parameters
    ----------
    order_from, tell_to : int
        File descriptors. An input that ends without an order is none.

    Returns
    -------
    int
        The signal that stopped it; SIGHUP where the input ended; 0: its time.

    Raises
    ------
    UsageError
        If the order is none.
    """
    line = _line(order_from)
    if not line.strip():
        return 0
    injection = read_order(line)
    with stopping() as stop:

        def tell(record: Record) -> None:
            try:
                os.write(tell_to, record.line())
            except OSError:  # nobody listens
                stop.signal = stop.signal or signal.SIGHUP

        threading.Thread(target=_watch, args=(order_from, stop), daemon=True).start()
        run([injection], tell=tell, stop=stop)
        return stop.signal


def _line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_ORDER_BYTES:
        more = os.read(descriptor, 1)  # what follows belongs to the thread that watches
        if not more:
            break
        line += more
    return line


def _watch(descriptor: int, stop: Stop) -> None:
    try:
        while os.read(descriptor, 1):
            pass
    except OSError:
        pass
    stop.signal = stop.signal or signal.SIGHUP
