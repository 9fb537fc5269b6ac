"""A page read without a browser: its elements, its words, and what its scripts hold."""

from __future__ import annotations

import json
from html.parser import HTMLParser


class Reader(HTMLParser):
    """Collects elements, their attributes, and the text of those that hold the page's words."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag in self.raw:
            self._inside.append(tag)
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside[-1]][-1] += data
        else:
            self.words += data.replace("\N{NO-BREAK SPACE}", " ")

    def payload(self) -> dict:
        scripts = [a for tag, a in self.tags if tag == "script"]
        (at,) = (i for i, a in enumerate(scripts) if a.get("id") == "payload")
        return json.loads(self.raw["script"][at])


def sections(page: Reader) -> list[str]:
    return [a["id"] for tag, a in page.tags if tag == "section" and a.get("id")]
