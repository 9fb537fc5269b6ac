"""Keeps kilobytes per application in a store, and answers what happened over weeks and months."""

from iqcar.history.add_logs import Added, add
from iqcar.history.stored_files import Store, open_store

__all__ = ["Added", "Store", "add", "open_store"]
