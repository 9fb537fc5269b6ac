"""Find wasted work: attempts that failed, were killed or did again what had been done."""

from iqcar.causes.wasted.waste_causes import WASTED_TASKS
from iqcar.causes.wasted.wasted_work import WASTED_WORK, WastedWork, find_wasted_work

__all__ = ["WASTED_TASKS", "WASTED_WORK", "WastedWork", "find_wasted_work"]
