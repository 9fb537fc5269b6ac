"""Answers to what-if questions with their pictures, as a notebook shows them."""

from __future__ import annotations

import html
from dataclasses import dataclass

from iqcar.base.units import short
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.say.what_if_sentences import check_sentence, total_lines
from iqcar.show.pictures import what_if_pictures
from iqcar.show.pictures.drawing import Drawing

TEXT_WIDTH = 600


class WhatIfPlots:
    """Pictures of one answer as SVG."""

    def __init__(self, answer: WhatIf) -> None:
        self._of = answer

    def durations(self) -> Drawing:
        """Draw each query's recorded duration, the predicted one and its range (80 %)."""
        return what_if_pictures.predicted_durations(self._of)

    def waits(self) -> Drawing:
        """Draw what all queries waited for, recorded and predicted, by resource."""
        return what_if_pictures.waits_before_after(self._of)

    def devices(self) -> Drawing:
        """Draw how busy the busiest host's devices were, recorded and predicted."""
        return what_if_pictures.device_use(self._of)


@dataclass(frozen=True, repr=False)
class ShownWhatIf(WhatIf):
    """An answer whose pictures are ``answer.plot.durations()``, ``.waits()``, ``.devices()``."""

    @property
    def plot(self) -> WhatIfPlots:
        """Pictures of the answer."""
        return WhatIfPlots(self)

    def _repr_html_(self) -> str:
        """Show in a notebook what it comes to, how far it can be trusted, and the durations."""
        answered = self.total["change_percent"] is not None
        said = [*(total_lines(self) if answered else ()), *self.refused]
        lines = [check_sentence(self.self_check), f"assumed: {'; '.join(self.assumptions)}"]
        parts = [
            f"<p><b>{_text(self.question.sentence())}</b></p>",
            *(f"<p>{_text(line)}</p>" for line in said),
            self.plot.durations().svg if answered else "",
            *(f'<p style="opacity:.75">{_text(line)}</p>' for line in lines),
        ]
        return f'<div style="max-width:70em">{"".join(parts)}</div>'


def _text(words: str) -> str:
    return f"\u2068{html.escape(short(words, TEXT_WIDTH))}\u2069"
