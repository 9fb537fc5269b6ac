"""Decoding what does not fit: damaged numbers, wrong types, NaN, nesting without end.

Slow and forgiving; only lines that the typed decoders refuse come here.
"""

from __future__ import annotations

import contextlib
import json
import re
import types
from functools import cache
from math import isfinite, nan
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Raw, Struct

from iqcar.logs.events.nesting import is_too_deep, is_too_dense
from iqcar.logs.events.task_structs import ID, NOT_FITTING

S = TypeVar("S", bound=Struct)

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
"""A token of JSON. Quoted text that is cut off goes to the end, so that no letter is tried twice;
it is refused when it is decoded."""
_SAFE_DIGITS = 100


class OutOfBoundsError(ValueError):
    """An id that Spark cannot have given."""


class BadNumbers:
    """Counts numbers that could not be read, and names their fields; each became NaN."""

    def __init__(self) -> None:
        self.count = 0
        self.names: set[str] = set()

    def add(self, name: str, count: int = 1) -> None:
        """Count some numbers of one field or setting."""
        self.count += count
        self.names.add(name)


def parse(line: bytes) -> Any:
    """Decode one line of JSON, also with NaN, bad UTF-8, or deeper than Python recurses.

    Raises ValueError if it is not JSON, or nests deeper or more densely than any line that is
    decoded.
    """
    if is_too_dense(line):
        raise ValueError("too many brackets")
    text = line.decode("utf-8", "replace")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        if is_too_deep(line):
            raise ValueError("nested too deep") from None
        return _parse_deep(text)


def parse_object(text: bytes) -> dict[str, Any]:
    """Decode an object of JSON, however it is spelled; empty where it is none."""
    try:
        found = msgspec.json.decode(text)
    except NOT_FITTING:
        try:
            found = parse(text)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


@cache
def _fields(struct: type[Struct]) -> list[tuple[str, str, Any]]:
    """Name, name in JSON, and type of a struct's fields; working them out is slow."""
    hints = get_type_hints(struct, include_extras=True)
    return [(f.name, f.encode_name, hints[f.name]) for f in msgspec.structs.fields(struct)]


def _integer(digits: str) -> float:
    """Python refuses integers of thousands of digits; as a float they are infinite, so NaN."""
    return int(digits) if len(digits) <= _SAFE_DIGITS else float(digits)


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer)


def _parse_deep(text: str) -> Any:
    """Decode JSON without recursion: a plan of a thousand joins nests deeper than Python does."""
    root: list[Any] = []
    stack: list[tuple[Any, str | None]] = []
    container: Any = root
    key: str | None = None
    for match in _TOKEN.finditer(text):
        piece = match.group()
        if piece in "]}":
            if not stack:
                raise ValueError("unbalanced brackets")
            container, key = stack.pop()
            key = None
            continue
        if piece == "," or piece == ":":
            continue
        value: Any = {"[": [], "{": {}}.get(piece)
        if value is None:
            plain = piece[0] == piece[-1] == '"' and len(piece) > 1 and "\\" not in piece
            value = piece[1:-1] if plain else _DECODER.decode(piece)
        if isinstance(container, dict) and key is None:
            if not isinstance(value, str):
                raise ValueError("a key that is no text")
            key = value
            continue
        if isinstance(container, dict):
            container[key] = value
        else:
            container.append(value)
        if piece in "[{":
            stack.append((container, key))
            container = value
        key = None
    if stack or len(root) != 1:
        raise ValueError("unbalanced brackets")
    return root[0]


def number(value: Any, bad: BadNumbers) -> float:
    """Return a value as a float; NaN, counted, where it is none (None, text, infinite)."""
    if isinstance(value, bool):
        bad.count += 1
        return nan
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        result = nan
    if not isfinite(result):
        bad.count += 1
        return nan
    return result


def _bounded(value: Any, bounds: Meta, bad: BadNumbers) -> float:
    """Return a number within its bounds; NaN, counted, for any other.

    Raises OutOfBoundsError if it is an id, and a number.
    """
    result = number(value, bad)
    low, high = bounds.ge, bounds.lt
    if (low is None or result >= low) and (high is None or result < high):
        return result
    if bounds.title == ID and isinstance(value, (int, float)) and not isinstance(value, bool):
        raise OutOfBoundsError
    bad.count += isfinite(result)
    return nan


def fit(kind: type[S], value: Any, bad: BadNumbers) -> S:
    """Build a struct from a decoded object, field by field; what does not fit gets its default.

    Parameters
    ----------
    kind : type of Struct
        The struct to build.
    value : what JSON held in its place; anything but an object gives the default struct.
    bad : counts the numbers that were lost.

    Raises OutOfBoundsError if an id is a number that Spark cannot have given.
    """
    # A stack of work instead of recursion, because plans nest without end.
    root: list[Any] = [None]
    work: list[tuple[type, Any, Any, Any]] = [(kind, value, root, 0)]
    fitted: list[tuple[type, dict[str, Any], Any, Any]] = []
    while work:
        struct, obj, holder, place = work.pop()
        values: dict[str, Any] = {}
        fitted.append((struct, values, holder, place))
        if not isinstance(obj, dict):
            continue
        for name, encoded, hint in _fields(struct):
            if encoded in obj:
                before = bad.count
                _fit_field(hint, obj[encoded], values, name=name, work=work, bad=bad)
                if bad.count > before:
                    bad.names.add(encoded)
    for struct, values, holder, place in reversed(fitted):
        holder[place] = struct(**values)
    result: S = root[0]
    return result


def _fit_field(
    hint: Any, item: Any, values: dict[str, Any], name: str, work: list[Any], bad: BadNumbers
) -> None:
    """Put one field into ``values``, or on the list of work if it is a struct."""
    if get_origin(hint) in (Union, types.UnionType):
        if item is None:
            values[name] = None
            return
        hint = next(option for option in get_args(hint) if option is not type(None))
    if get_origin(hint) is Annotated:
        values[name] = _bounded(item, hint.__metadata__[0], bad)
    elif hint is float:
        values[name] = number(item, bad)
    elif hint is str:
        if isinstance(item, (str, int, float)):
            values[name] = encodable(str(item))
    elif hint is bool:
        values[name] = item is True or item == "true"
    elif hint is Raw:
        values[name] = Raw(_encode(item))
    elif get_origin(hint) is list:
        if isinstance(item, list):
            values[name] = _fit_list(get_args(hint)[0], item, work, bad)
    elif isinstance(item, dict):
        work.append((hint, item, values, name))


def encodable(text: str) -> str:
    r"""Replace halves of characters, which JSON can hold and no output can.

    >>> encodable("a\ud800")
    'a?'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _fit_list(hint: Any, items: list[Any], work: list[Any], bad: BadNumbers) -> list[Any]:
    if get_origin(hint) is Annotated:
        return [_bounded(item, hint.__metadata__[0], bad) for item in items]
    if hint is float:
        return [number(item, bad) for item in items]
    if get_origin(hint) is list:
        return [_fit_list(get_args(hint)[0], i, work, bad) for i in items if isinstance(i, list)]
    objects = [item for item in items if isinstance(item, dict)]
    result: list[Any] = [None] * len(objects)
    work.extend((hint, item, result, place) for place, item in enumerate(objects))
    return result


def _encode(item: Any) -> bytes:
    try:
        return msgspec.json.encode(item)
    except UnicodeEncodeError:  # halves of characters: see encodable
        with contextlib.suppress(RecursionError, ValueError):
            return json.dumps(item, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (RecursionError, OverflowError, msgspec.MsgspecError):
        pass
    return b""
