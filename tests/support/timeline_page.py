"""A page with nothing but the timeline, under the policy that reports are under."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from iqcar.report.html.timeline import timeline_program, timeline_style

START = """
const heard = [];
const timeline = iqcarTimeline(document.getElementById('timeline'),
  JSON.parse(document.getElementById('data').textContent), {
    onSelect: (id) => heard.push(id),
    selected: document.body.dataset.selected || null,
  });
document.body.addEventListener('ask', () => {
  document.body.dataset.state = JSON.stringify({ ...timeline.state(), heard });
});
document.body.addEventListener('update', (event) => timeline.update({ selected: event.detail }));
document.body.addEventListener('measure', () => {
  const times = [];
  for (let i = 0; i < 30; i += 1) { timeline.draw(); times.push(timeline.state().frame_ms); }
  document.body.dataset.times = JSON.stringify(times);
});
"""


def write_page(path: Path, payload: dict[str, Any], selected: str = "", dark: bool = False) -> Path:
    """Write the page; its own program hears ``ask``, ``update`` and ``measure``."""
    style = timeline_style() + "body { font: 14px system-ui, sans-serif; margin: 24px; }"
    if dark:
        style += ":root { --ink: #e6eaee; --faint: #a7b1bb; --line: #333b44; --paper: #14181d; "
        style += "--wash: #191f25; --chosen: #1f3a54; } "
        style += "body { background: var(--paper); color: var(--ink); }"
    program = "(() => {\n" + timeline_program() + START + "})();"
    data = json.dumps(payload).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {_hash(program)}; style-src {_hash(style)}; "
        "require-trusted-types-for 'script'"
    )
    path.write_text(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>timeline</title>
<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{style}</style></head>
<body data-selected="{selected}"><main><h1>Timeline</h1><div id="timeline"></div></main>
<script type="application/json" id="data">{data}</script><script>{program}</script>
</body></html>""",
        encoding="utf-8",
    )
    return path


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
