"""Write the pages and pictures of docs/ that are printed from the code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from iqcar.show.json.analyze import result_schema
from scripts.printed_pages.commands_page import commands_page
from scripts.printed_pages.page_parts import FIELDS, PRINTED, fields, listed, once
from scripts.printed_pages.papers_page import papers_page
from scripts.printed_pages.rules_page import rules_page
from scripts.printed_pages.table_pages import kinds_page, stored_tables_page, tables_page

DOCS = Path(__file__).resolve().parent.parent / "docs"


def result_page() -> str:
    """The fields of the result's JSON."""
    schema = json.loads(result_schema())
    lines = ["# Result", PRINTED, schema["description"], "`iqcar schema` prints its JSON Schema."]
    lines.append(FIELDS)
    parts = {"The whole": schema, **schema["$defs"]}
    items = {name: fields(part["properties"], parts) for name, part in parts.items()}
    told = once(items.values())
    for name, part in parts.items():
        said = "" if part is schema else part["description"]
        lines += ["", f"## {name}", "", *([said, ""] if said else []), *listed(items[name], told)]
    lines += ["", "## Fields of several parts", "", *listed(told)]
    return "\n".join(lines) + "\n"


def evaluation() -> str:
    """What experiments found, next to what the papers did."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "experiments"))
    from tables import evaluation_page

    return evaluation_page()


def compatibility_matrix() -> str:
    """Which Spark, Python and platform the tests run on."""
    from scripts.supported import compatibility_page

    return compatibility_page(PRINTED)


def rooms_picture() -> str:
    """The rooms of the package, as SVG."""
    from scripts.draw_rooms import draw_package
    from tests.project.test_layers import FLOW, GROUND, ROOMS

    return draw_package(GROUND, FLOW, ROOMS)


def listener_rooms_picture() -> str:
    """The rooms of the Spark plugin, as SVG."""
    from scripts.draw_rooms import draw_plugin
    from tests.project.test_listener_rooms import FLOW

    return draw_plugin(FLOW)


PAGES = {
    "rooms.svg": rooms_picture,
    "listener_rooms.svg": listener_rooms_picture,
    "evaluation.md": evaluation,
    "compatibility.md": compatibility_matrix,
    "tables.md": tables_page,
    "stored-tables.md": stored_tables_page,
    "kinds.md": kinds_page,
    "commands.md": commands_page,
    "rules.md": rules_page,
    "result.md": result_page,
    "papers.md": papers_page,
}


def main() -> None:
    """Write all pages and name them."""
    DOCS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"Wrote docs/{name}\n")
    from tour import PAGE, with_output

    PAGE.write_text(with_output(PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write("Wrote docs/tour.md\n")


if __name__ == "__main__":
    main()
