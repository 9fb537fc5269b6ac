"""Reads small XML files of others, and edits them in place: all but the edit stays byte for byte.

Entities and document types are refused, so nothing is expanded or fetched; size, depth and number
of elements are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar
from xml.parsers import expat
from xml.sax.saxutils import escape

from iqcar.errors import IqcarError

MAX_BYTES = 4 * 2**20
"""Larger files are no configuration: a thousand queues take about 500 KB."""
MAX_DEPTH = 64
"""Levels of elements; queues are rarely nested more than five times."""
MAX_ELEMENTS = 200_000
_ATTRIBUTE = re.compile(rb"""\s+([^\s=]+)\s*=\s*("[^"]*"|'[^']*')""")
_File = TypeVar("_File")


@dataclass
class Element:
    """An element, and where in the file it stands.

    start, end: bytes from its first to after its last.
    inside, inside_end: bytes of its content; None for an element of the form ``<x/>``.
    text: its own text as it stands, without that of elements in it.
    """

    tag: str
    attributes: dict[str, str]
    start: int
    depth: int
    inside: int | None = None
    inside_end: int | None = None
    end: int = 0
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def child(self, tag: str) -> Element | None:
        """Return the last element of a name directly in it: where one is repeated, it counts."""
        return next((one for one in reversed(self.children) if one.tag == tag), None)


def parse_xml(content: bytes, where: str, advice: str) -> Element:
    """Parse a file; returns its outermost element.

    Raises IqcarError if it is no XML, larger than the bounds of this module, not in UTF-8, or has
    a document type or entities of its own.

    where: What an error message calls it.
    advice: What to do about such a file.
    """
    if len(content) > MAX_BYTES:
        raise IqcarError(f"is larger than {MAX_BYTES >> 20} MB", where, advice)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise IqcarError("is not in UTF-8", where, advice) from error
    try:
        return _Reader(content).root
    except (expat.ExpatError, _RefusedError) as error:
        what = str(error) if isinstance(error, _RefusedError) else f"is not XML: {error}"
        raise IqcarError(what, where, advice) from error


class _RefusedError(ValueError):
    """A file asks for what is not read."""


class _Reader:
    """Builds elements from the parser's events."""

    def __init__(self, content: bytes) -> None:
        self.content, self.open, self.count = content, list[Element](), 0
        self.texts: list[list[str]] = []  # pieces of each open element's text
        self.parser = expat.ParserCreate("utf-8")
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.CommentHandler = self.parser.ProcessingInstructionHandler = self._other
        self.parser.StartCdataSectionHandler = self._other
        self.parser.StartDoctypeDeclHandler = self.parser.EntityDeclHandler = self._refuse
        self.parser.Parse(content, True)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._other()
        self.count += 1
        if len(self.open) >= MAX_DEPTH or self.count > MAX_ELEMENTS:
            raise _RefusedError(f"has more than {MAX_ELEMENTS:,} elements, or {MAX_DEPTH} levels")
        made = Element(tag, attributes, self.parser.CurrentByteIndex, len(self.open))
        if self.open:
            self.open[-1].children.append(made)
        else:
            self.root = made
        self.open.append(made)
        self.texts.append([])

    def _end(self, _tag: str) -> None:
        self._other()
        made, at = self.open.pop(), self.parser.CurrentByteIndex
        if made.inside == at and self.content[at - 2 : at] == b"/>":
            made.inside, made.end = None, at
        else:
            made.inside_end = at
            made.end = self.content.index(b">", at) + 1
        made.text = "".join(self.texts.pop())

    def _text(self, text: str) -> None:
        self._other()
        if self.open:
            self.texts[-1].append(text)

    def _other(self, *_: object) -> None:
        """Note where the content of the innermost element begins: where anything follows its tag.

        A processing instruction, a comment and a CDATA section are passed over.
        """
        if self.open and self.open[-1].inside is None:
            self.open[-1].inside = self.parser.CurrentByteIndex

    def _refuse(self, *_: object) -> NoReturn:
        raise _RefusedError("has a document type or entities of its own, which are not read")


@dataclass(frozen=True)
class Edit:
    """Bytes of a file from ``start`` to ``end``, and what takes their place."""

    start: int
    end: int
    text: str


def set_text(element: Element, text: str) -> Edit:
    """Give an element another content."""
    if element.inside is None or element.inside_end is None:
        attributes = "".join(f' {name}="{quoted(v)}"' for name, v in element.attributes.items())
        whole = f"<{element.tag}{attributes}>{escape(text)}</{element.tag}>"
        return Edit(element.start, element.end, whole)
    return Edit(element.inside, element.inside_end, escape(text))


def set_attribute(content: bytes, element: Element, name: str, value: str) -> Edit:
    """Give an attribute that an element has another value."""
    at = element.start + 1 + len(element.tag.encode())
    while (found := _ATTRIBUTE.match(content, at)) and found[1].decode() != name:
        at = found.end()
    if found is None:
        raise ValueError(f"<{element.tag}> has no attribute {name}")
    return Edit(found.start(2), found.end(2), f'"{quoted(value)}"')


def append(content: bytes, element: Element, lines: Iterable[str]) -> Edit:
    """Add lines of XML at the end of an element's content, indented as its other children are."""
    margin = _margin(content, element)
    step = "  "
    if element.children:
        inner = _margin(content, element.children[-1])
        step = inner[len(margin) :] if inner.startswith(margin) and inner != margin else step
    added = "".join(f"{margin}{step}{line}\n" for line in lines)
    if element.inside is None or element.inside_end is None:
        opened = content[element.start : element.end].decode().rstrip("/> \n")
        return Edit(element.start, element.end, f"{opened}>\n{added}{margin}</{element.tag}>")
    # The line of the end tag stays as it is.
    before = content[element.inside : element.inside_end].rstrip(b" \t")
    at = element.inside + len(before)
    if before.endswith(b"\n"):
        return Edit(at, at, added)
    return Edit(element.inside_end, element.inside_end, f"\n{added}{margin}")


def apply_edits(content: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits that do not overlap; those at one place in their order."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        parts += [content[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*parts, content[at:]])


def edited_file(
    read: Callable[[bytes, str], _File], content: bytes, edits: Iterable[Edit], where: str
) -> _File:
    """Edit a file that was read without an error; raises IqcarError if it would be wrong then."""
    try:
        return read(apply_edits(content, edits), where)
    except IqcarError as error:
        what = f"iqcar's own change of it would be wrong: {error.what}"
        raise IqcarError(what, where, "the file was right; please report this") from error


def place_of(content: bytes, element: Element, where: str) -> str:
    """Tell in which line of a file an element begins."""
    before = content.count(b"\n", 0, element.start)
    return f"{where}, line {before + 1}"


def quoted(text: str) -> str:
    """Return text as it stands in an attribute, between double quotes."""
    return escape(text, {'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


def _margin(content: bytes, element: Element) -> str:
    """Return the blanks before an element on its line; none where something else precedes it."""
    line = content[content.rfind(b"\n", 0, element.start) + 1 : element.start].decode()
    return line if not line.strip() else ""
