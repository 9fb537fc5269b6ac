"""Convert columns of a trace to numbers and to codes of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from iqcar.tables.arrays import Floats, Ints

MAX_NAME = 200
"""Characters kept of a name in a trace."""
LARGEST = 1e300
"""A number beyond it is damage."""


def number_of(table: pd.DataFrame, name: str) -> Floats:
    """A column as numbers; NaN for what is none, is infinite or damaged, or is not there."""
    if not name:
        return np.full(len(table), np.nan)
    numbers = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore"):
        plausible: Floats = np.where(np.abs(numbers) < LARGEST, numbers, np.nan)
    return plausible


def codes_of(table: pd.DataFrame, names: tuple[str, ...]) -> tuple[Ints, list[str]]:
    """Number the texts of a column, or of several together; −1 for what is missing in any.

    Returns
    -------
    ndarray of shape (n_rows,)
        Position of each row's text in the list.
    list of str
        The texts in alphabetical order.
    """
    if not names:
        return np.full(len(table), -1, np.int64), []
    codes, texts = _codes_of_column(table[names[0]])
    for name in names[1:]:
        more, others = _codes_of_column(table[name])
        both = np.where((codes < 0) | (more < 0), -1, codes * max(len(others), 1) + more)
        pairs, codes = np.unique(both, return_inverse=True)
        missing = int((pairs < 0).sum())  # at most one, the first
        codes = codes - missing
        left, right = np.divmod(pairs[missing:], max(len(others), 1))
        texts = [
            f"{texts[a]}/{others[b]}" for a, b in zip(left.tolist(), right.tolist(), strict=True)
        ]
    # Texts can be equal that were not before they were cut.
    of_text, found = pd.factorize(pd.Series(texts, dtype="string"), sort=True)
    numbers = np.append(of_text, -1)[codes]
    return numbers.astype(np.int64), [str(text) for text in found]


def _codes_of_column(column: pd.Series) -> tuple[Ints, list[Any]]:
    codes, found = pd.factorize(column)
    return codes.astype(np.int64), pd.Series(found).astype("string").str.slice(0, MAX_NAME).tolist()
