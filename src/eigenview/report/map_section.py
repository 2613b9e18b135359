"""The map's controls and an empty canvas, which the script fills."""

from __future__ import annotations

from eigenview.report.html import Html, element
from eigenview.report.structure import Structure


def map_stage(structure: Structure) -> tuple[Html, Html, Html]:
    """Controls, the map with its legend, and how to use it."""
    names = [projection.name for projection in structure.projections]
    radios = [
        element(
            "label", element("input", type="radio", name="projection", value=at, checked=at == 0), element("span", name)
        )
        for at, name in enumerate(names)
    ]
    controls = element(
        "div",
        element("fieldset", element("legend", "Projection"), *radios, class_="choice"),
        element("fieldset", element("legend", "Colour by"), class_="choice", id="colourings"),
        element(
            "label",
            element("span", "Find"),
            element("input", type="search", id="map-find", placeholder="file name or class"),
            class_="find",
        ),
        class_="controls",
    )
    buttons = [
        element("button", sign, type="button", id=f"map-{name}", aria_label=said)
        for name, sign, said in (
            ("in", "+", "zoom in"),
            ("out", "\N{MINUS SIGN}", "zoom out"),
            ("reset", "\N{MULTIPLICATION SIGN}1", "whole map"),
        )
    ]
    stage = element(
        "div",
        element(
            "canvas",
            id="map-canvas",
            tabindex=0,
            role="application",
            aria_describedby="map-help",
            aria_label="map of the embedding",
        ),
        element("div", *buttons, class_="zoom"),
        element("div", id="map-tip", class_="tip", hidden=True),
        class_="stage",
    )
    help_text = (
        "Arrow keys walk from image to image, + and \N{MINUS SIGN} zoom, Escape lets go. Ctrl and wheel zoom too."
    )
    side = element(
        "div",
        element("div", id="map-selected", class_="selected", aria_live="polite"),
        element(
            "div",
            element("button", "all", type="button", id="map-all"),
            element("button", "none", type="button", id="map-none"),
            element("span", id="map-shown", class_="note"),
            class_="legend-head",
        ),
        element("div", id="map-legend", class_="legend", role="group", aria_label="groups shown"),
        class_="side",
    )
    note = element("p", element("span", id="map-note"), " ", help_text, class_="note", id="map-help")
    return controls, element("div", stage, side, class_="map"), note
