"""What spreading and auditing found, kept in a run directory for its report."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from eigenview.data import Source
from eigenview.labels.audits import Audit
from eigenview.labels.suggesting import Suggestions
from eigenview.runs.shown_labels import ShownGroup, ShownLabels, ShownPicture, write_shown_labels
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings

SIDE, QUALITY = 72, 82  # of a small picture
EACH, CLASSES, SUSPECTS = 12, 40, 60  # pictures of a class, classes, suspects


def surest_and_least(spread: Suggestions, number: int, most: int) -> tuple[list[int], int]:
    """Of the pictures that got class ``number``: the surest, then the least sure, ``most`` in all; and how many got it.

    Those whose label was given are left out.
    """
    rows = ((spread.numbers == number) & ~spread.given).nonzero().flatten()
    order = rows[spread.probability[rows].argsort(descending=True)].tolist()
    return (order if len(order) <= most else order[: most // 2] + order[-(most // 2) :]), len(order)


def keep_suggestions(run: Path, spread: Suggestions, source: Source | None = None) -> Path:
    """``RUN/labels/suggested.json``."""
    groups = []
    for number, name in enumerate(spread.classes[:CLASSES]):
        rows, count = surest_and_least(spread, number, EACH)
        shown = ((row, f"{float(spread.probability[row]):.0%}") for row in rows)
        groups.append(ShownGroup(f"{name}: {count:,} images", _small(shown, spread.stored, source)))
    said, given = int((spread.numbers >= 0).sum()), int(spread.given.sum())
    summary = f"{said - given:,} of {len(spread.stored):,} images got a label from the {given:,} that were given."
    return write_shown_labels(run, ShownLabels("suggested", summary, tuple(groups)))


def keep_audit(run: Path, audited: Audit, stored: Embeddings, source: Source | None = None) -> None:
    """``RUN/labels/suspicious.json`` and ``outliers.json``."""
    suspects = ((each.row, f"{each.given} → {each.suggested} {each.probability:.0%}") for each in audited.suspects)
    shown = _small((pair for pair, _ in zip(suspects, range(SUSPECTS), strict=False)), stored, source)
    summary = f"{len(audited.suspects):,} of {audited.labels:,} labels are probably wrong."
    write_shown_labels(run, ShownLabels("suspicious", summary, (ShownGroup("The most doubtful first", shown),)))
    odd = _small(((each.row, audited.given.get(each.row, "")) for each in audited.outliers), stored, source)
    write_shown_labels(run, ShownLabels("outliers", "", (ShownGroup("The most isolated first", odd),)))


def _small(shown: Iterable[tuple[int, str]], stored: Embeddings, source: Source | None) -> tuple[ShownPicture, ...]:
    pictures = Pictures(stored, source)
    return tuple(
        ShownPicture("/".join(stored.paths[row].split("/")[-2:]), caption, _encoded(pictures.of_row(row)))
        for row, caption in shown
    )


def _encoded(picture: Image.Image | None) -> str:
    """A square of the middle, as JPEG in base64."""
    if picture is None:
        return ""
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    box, how = (left, top, left + side, top + side), Image.Resampling.LANCZOS
    data = io.BytesIO()
    picture.convert("RGB").resize((SIDE, SIDE), how, box=box).save(data, "JPEG", quality=QUALITY)
    return base64.b64encode(data.getvalue()).decode()
