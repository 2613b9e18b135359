"""The page: sections in order, styles, scripts and data in one file that asks nobody for anything."""

import base64
import hashlib
from collections.abc import Mapping, Sequence

from eigenview.extras import extra_module
from eigenview.files import JSON
from eigenview.report import sections
from eigenview.report.charts import chart_data, confusion_data, map_data
from eigenview.report.galleries import sheet_styles
from eigenview.report.html import Html, asset, element, script_json
from eigenview.report.structure import Structure
from eigenview.runs.contents import RunContents

SCRIPTS = ("theme.js", "marks.js", "plane.js", "charts.js", "map.js")
STYLES = ("theme.css", "report.css")


def build_page(runs: Sequence[RunContents], structures: Mapping[int, Structure]) -> str:
    """The whole document for one run, or a comparison of several."""
    alone = runs[0] if len(runs) == 1 else None
    structure = structures.get(0) if alone is not None else None
    data: dict[str, JSON] = chart_data(runs, structures)
    styles = ""
    if alone is not None and alone.sample is not None and structure is not None:
        data |= {"map": map_data(alone.sample, structure), "confusion": confusion_data(structure.confusion)}
        styles += sheet_styles(alone.sample)
    listed = sections.of_one(alone, structure) if alone is not None else sections.of_several(runs)
    title = runs[0].name if alone is not None else f"{len(runs)} runs compared"
    return document(title, listed, data, scripts=SCRIPTS, styles=styles)


def document(
    title: str,
    listed: Sequence[sections.Section],
    data: Mapping[str, JSON],
    *,
    scripts: Sequence[str],
    styles: str = "",
) -> str:
    """Sections, styles, scripts and what the scripts draw, in one file.

    Scripts run only if their hash is in the page's own policy, which allows no request at all: text that slipped past
    the escaping still could not run, and nothing could leave.
    """
    plotly = extra_module("plotly.offline", extra="report", purpose="the report")
    library: str = plotly.get_plotlyjs().replace("</script", "<\\/script")  # as its Python package ships it
    ours = "\n".join(asset(name) for name in scripts)
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(ours)}; style-src 'unsafe-inline'; img-src data: blob:"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} \N{MIDDLE DOT} Eigenview"),
        element("link", rel="icon", href="data:,"),
        element("style", Html("\n".join(map(asset, STYLES)) + styles)),
    )
    mark = element("span.mark", "Eigenview")
    toggle = element("button", "Dark", type="button", id="theme", aria_label="switch between dark and light")
    links = [element("li", element("a", shown.short, href=f"#{shown.name}")) for shown in listed if shown.short]
    contents = element("nav.contents", element("ul", *links), aria_label="contents")
    main = element("main", *(section.html for section in listed), id="main")
    body = element(
        "body",
        element("a.skip", "Skip to the report", href="#main"),
        element("header.bar", mark, element("span.run-name", title), toggle),
        element("div.layout", contents, main),
        element("script", script_json(data), type="application/json", id="data"),
        element("script", Html(library)),
        element("script", Html(ours)),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
