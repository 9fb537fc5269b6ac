"""Bounds how deep and how densely a line's JSON nests, and decodes plans that nest deeply.

A plan that nests deeper than the typed decoders can follow is decoded piece by piece: the line is
cut where its brackets reach certain depths, and the nodes are put together again.
"""

from __future__ import annotations

import contextlib
import json
import re
import types
from functools import cache
from math import isfinite, nan
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct

from iqcar.logs.events.structs import PlanNode, SqlAdaptive, SqlStart
from iqcar.logs.events.task_structs import ID, NOT_FITTING

if TYPE_CHECKING:
    from iqcar.tables.arrays import Ints


MAX_DEPTH = 50_000
"""Depth of brackets of the deepest line that is decoded. A node of a plan takes two; plans of
thousands of joins exist."""

MAX_ELEMENTS = 1 << 20
"""Values in one line (1 M), counted by commas and brackets; each takes up to 250 bytes of memory.
Of a huge plan each takes some 40 bytes of its line."""
MAX_ELEMENTS_OF_A_LOG = 1 << 21
"""Values in all dense lines of one log (2 M); of many logs of real clusters no line is dense."""
DENSE_BYTES, DENSE = 1 << 12, 12
"""From how many bytes on a line may be dense (4 KiB), and bytes per value below which it is."""

MAX_QUOTES = 1 << 23
"""Quotes up to which the depth of a line is told: their places take 64 MiB."""

_SIGNS = b",", b"[", b"{"
"""Before each value of a line stands one of these, or what belongs to its name."""
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _CLOSED = 2, 255
_MARKS = bytes(
    {34: _QUOTE, **dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", _CLOSED)}.get(byte, 0)
    for byte in range(256)
)
"""What each byte does to the depth of brackets (255 is −1), or that it is a quote."""


class Brackets(NamedTuple):
    """The brackets of a line that stand in no text.

    places: ndarray of shape (n,), int64; where they stand in the line.
    steps: ndarray of shape (n,), int8; 1 for one that opens, −1 for one that closes.
    depths: ndarray of shape (n,), int32; how many are open behind each.
    """

    places: Ints
    steps: Ints
    depths: Ints


_BLOCK = 1 << 16


def dense_elements(line: bytes) -> int:
    """Return how many values a line has; 0 where they are not dense, as in all ordinary lines."""
    most = len(line) // DENSE
    if len(line) < DENSE_BYTES or sum(map(line.count, _SIGNS)) <= most:
        return 0
    # Those in texts are no values. A block at a time: each text between two quotes takes 36 bytes.
    text, found, inside = _ESCAPED.sub(b"__", line) if b"\\" in line else line, 0, 0
    for start in range(0, len(text), _BLOCK):
        parts = text[start : start + _BLOCK].split(b'"')
        found += sum(part.count(sign) for part in parts[inside::2] for sign in _SIGNS)
        inside ^= len(parts) - 1 & 1
    return found if found > most else 0


class DenseLines:
    """Counts the values of the dense lines of one log; ``left_out`` are lines with too many."""

    def __init__(self) -> None:
        self.values = self.left_out = 0

    def has_too_many(self, line: bytes, *, counts: bool = True) -> bool:
        """Tell whether a line has too many values by itself, or with those before that count."""
        own = dense_elements(line)
        values = self.values + own * counts
        too_many = own > MAX_ELEMENTS or (values > MAX_ELEMENTS_OF_A_LOG and own * counts > 0)
        self.left_out += too_many
        self.values = self.values if too_many else values
        return too_many


def is_too_dense(line: bytes) -> bool:
    """Tell whether a line has more values than any that is decoded."""
    return len(line) > MAX_ELEMENTS and dense_elements(line) > MAX_ELEMENTS


def is_too_deep(line: bytes) -> bool:
    """Tell whether a line nests deeper than any that is decoded, or is too dense to tell."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    if is_too_dense(line) or line.count(b'"') > MAX_QUOTES:
        return True
    return int(brackets(line).depths.max(initial=0)) > MAX_DEPTH


def brackets(line: bytes) -> Brackets:
    """Find the brackets of a line; those in texts do not count."""
    text = _ESCAPED.sub(b"__", line) if b"\\" in line else line
    marks = np.frombuffer(text.translate(_MARKS), np.int8)
    places = np.flatnonzero(marks != 0)  # of booleans they are found four times as fast
    steps = marks[places]
    quotes = steps == _QUOTE
    outside = ~quotes & (np.cumsum(quotes, dtype=np.uint8) & 1 == 0)  # it overflows to even
    places, steps = places[outside], steps[outside]
    return Brackets(places, steps, np.cumsum(steps, dtype=np.int32))


_ROOT = 2
"""Depth of brackets of a plan's root, which stands in the event."""
_LEVELS = 100
"""Depth of brackets of a piece: two per node, so it is even. What is less deep than that stays in
the piece above, so that a piece can be twice as deep: a fifth of what the typed decoders follow."""
_CUT = "\x01cut "
"""How the name of a node begins that stands for a piece; the piece's number follows."""


class _Piece(NamedTuple):
    """A node with all below it but the pieces in it: where it stands in the line."""

    start: int
    end: int
    inner: list[int]
    """Numbers of the pieces in it, in their order; each is larger than its own."""


def decode_deep(
    line: bytes, kind: type[SqlStart] | type[SqlAdaptive]
) -> SqlStart | SqlAdaptive | None:
    """Decode an event with a deep plan; return None where only the lenient decoder can tell.

    kind: the event's struct.
    """
    pieces = _pieces(line)
    if len(pieces) < 2:
        return None
    try:
        event = msgspec.json.decode(_text(line, pieces, 0), type=kind)
        if event.plan is None:
            return None
        nodes = [event.plan]
        nodes += [_decode_node(_text(line, pieces, number)) for number in range(1, len(pieces))]
    except NOT_FITTING:
        return None
    joined = all(_join(number, piece, nodes) for number, piece in enumerate(pieces))
    return event if joined else None


_decode_node = msgspec.json.Decoder(PlanNode).decode


def _join(number: int, piece: _Piece, nodes: list[PlanNode]) -> bool:
    """Put the pieces within a piece into its node; tell whether each had one place."""
    missing = {f"{_CUT}{inner}": inner for inner in piece.inner}
    stack = [nodes[number]]
    while stack:
        children = stack.pop().children
        for place, child in enumerate(children):
            if child.children:
                stack.append(child)
            elif child.name.startswith(_CUT):
                inner = missing.pop(child.name, 0)
                if not inner:
                    return False  # the log itself has nodes of such a name
                children[place] = nodes[inner]
    return not missing


def _text(line: bytes, pieces: list[_Piece], number: int) -> bytes:
    """Return the text of a piece, with a node that has only a name for each piece in it."""
    done, end, numbers = pieces[number]
    parts: list[bytes] = []
    for inner in numbers:
        start, after, _ = pieces[inner]
        parts += line[done:start], b'{"nodeName":"\\u0001cut %d"}' % inner
        done = after
    return b"".join((*parts, line[done:end]))


def _pieces(line: bytes) -> list[_Piece]:
    """Cut a line; its first piece is the event. There is no piece if brackets do not match."""
    if is_too_deep(line):
        return []
    places, steps, depths = brackets(line)
    if not len(depths) or depths[-1] != 0 or depths.min() < 0:
        return []
    levels = depths + (steps < 0) - _ROOT
    cuts = (levels > 0) & (levels % _LEVELS == 0)
    spans: list[list[int]] = []  # start, end, and whether another such bracket is inside
    opened: list[list[int]] = []
    for place, step in zip(places[cuts].tolist(), steps[cuts].tolist(), strict=True):
        if step < 0:
            opened.pop()[1] = place + 1
            continue
        if opened:
            opened[-1][2] = 1
        opened.append([place, 0, 0])
        spans.append(opened[-1])
    pieces = [_Piece(0, len(line), [])]
    around = [0]
    for start, end, is_deep in spans:
        if is_deep:
            while pieces[around[-1]].end <= start:
                around.pop()
            pieces[around[-1]].inner.append(len(pieces))
            around.append(len(pieces))
            pieces.append(_Piece(start, end, []))
    return pieces


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

    kind: the struct to build.
    value: what JSON held in its place; anything but an object gives the default struct.
    bad: counts the numbers that were lost.

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
