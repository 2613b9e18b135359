"""Sections about labels: suggested ones, suspicious ones, odd ones out among labelled images."""

from __future__ import annotations

from eigenview.report.html import Html, element, join
from eigenview.runs.shown_labels import Kind, ShownGroup, ShownLabels, ShownPicture

HEADINGS: dict[Kind, tuple[str, str, str]] = {  # short, heading, how to read it
    "suggested": (
        "Suggested labels",
        "Suggested labels",
        "Of each class the surest images, then the least sure, with the probability of the label.",
    ),
    "suspicious": (
        "Suspicious labels",
        "Suspicious labels",
        "Labels that disagree with their image's neighbourhood, with what they probably are and how probable that is.",
    ),
    "outliers": (
        "Labelled outliers",
        "Odd ones out among the labelled",
        "Labelled images that are like no others: rarities, mistakes, or what does not belong.",
    ),
}


def labels_content(shown: ShownLabels) -> Html:
    """The groups of one kind."""
    summary = element("p", shown.summary) if shown.summary else None
    groups = [_group(group) for group in shown.groups if group.pictures]
    return join(summary, *(groups or [element("p.quiet", "None.")]))


def _group(group: ShownGroup) -> Html:
    tiles = element("ul.duplicates", *(_tile(each) for each in group.pictures))
    return element("div.label-group", element("h3", group.heading), tiles)


def _tile(shown: ShownPicture) -> Html:
    address = f"data:image/jpeg;base64,{shown.picture}"
    picture = element("img", src=address, alt=shown.name, title=shown.name, width="72", height="72")
    names = element("span.names", shown.name)
    caption = element("span.caption", element("b", shown.caption) if shown.caption else None, names)
    return element("li", picture if shown.picture else None, caption)
