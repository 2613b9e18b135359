"""Pictures to label and labels to doubt, shown: on contact sheets, and kept in a run directory for its report."""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps

from eigenview.data import Source
from eigenview.labels.audits import Audit
from eigenview.labels.label_files import check_place
from eigenview.labels.suggesting import Suggestions
from eigenview.runs.contents import ShownGroup, ShownLabels, ShownPicture, write_shown_labels
from eigenview.search.contact import COLUMNS, Block, Tile, write_sheet
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings

MOST = 96  # pictures under one heading
SETS, SHEET_EACH = 24, 16  # of copies, and of leaks, on a sheet; pictures of a class there
SIDE, QUALITY = 72, 82  # of a small picture
EACH, CLASSES, SUSPECTS = 12, 40, 60  # pictures of a class, classes, suspects


@dataclass(frozen=True)
class Shown:
    """Pictures under a heading: rows, and what stands below each before its name; then some of another set."""

    heading: str
    pictures: Sequence[tuple[int, tuple[str, ...]]]
    others: Sequence[tuple[int, tuple[str, ...]]] = ()


def labels_sheet(
    title: str,
    groups: Iterable[Shown],
    stored: Embeddings,
    out: str | Path,
    *,
    source: Source | None = None,
    other: Embeddings | None = None,
    overwrite: bool = False,
) -> Path:
    """A PNG of groups of pictures, at most 96 of each; ``other`` is the other set."""
    place = Path(out)
    check_place(place, overwrite=overwrite, suffixes=(".png",))
    pictures, others = Pictures(stored, source), Pictures(stored if other is None else other)
    blocks = [
        Block(
            shown.heading + (f" ({MOST} of {len(shown.pictures):,})" if len(shown.pictures) > MOST else ""),
            None,
            _tiles(shown.pictures[:MOST], pictures) + _tiles(shown.others, others),
        )
        for shown in groups
    ]
    return write_sheet(title, blocks, place, columns=COLUMNS)


def _tiles(shown: Sequence[tuple[int, tuple[str, ...]]], pictures: Pictures) -> tuple[Tile, ...]:
    paths = pictures.embeddings.paths
    return tuple(
        Tile(pictures.of_row(row), (*lines, paths[row].replace("\\", "/").rpartition("/")[2])) for row, lines in shown
    )


def suggested_groups(spread: Suggestions) -> list[Shown]:
    """Of each class the pictures that are surest, and then those that are least sure."""
    groups = []
    for number, name in enumerate(spread.classes):
        rows, count = surest_and_least(spread, number, SHEET_EACH)
        shown = [(row, (f"{float(spread.probability[row]):.0%}",)) for row in rows]
        groups.append(Shown(f"{name}: {count:,}, the surest and the least sure", shown))
    return groups


def doubtful_groups(audited: Audit) -> list[Shown]:
    """Suspects, odd ones out, and side by side copies of one picture, and pictures that are in both sets."""
    suspects = [
        (each.row, (f"{each.given} → {each.suggested}", f"{each.probability:.0%}")) for each in audited.suspects
    ]
    odd = [(each.row, (audited.given.get(each.row, ""),)) for each in audited.outliers]
    groups = [Shown(f"{len(suspects):,} labels that are probably wrong", suspects), Shown("Like no others", odd)]
    copies = () if audited.copies is None else audited.copies.sets
    for number, copied in enumerate(copies[:SETS], start=1):
        members = [(member.row, (audited.given.get(member.row, ""),)) for member in copied.members]
        groups.append(Shown(f"Copies of one picture, set {number} of {len(copies):,}", members))
    leaks = () if audited.leaks is None else audited.leaks.pairs
    for number, pair in enumerate(leaks[:SETS], start=1):
        own, other = ((row, (label or "",)) for row, label in zip(pair.rows, pair.labels, strict=True))
        groups.append(Shown(f"Here and in the other set, {number} of {len(leaks):,}", [own], [other]))
    return [group for group in groups if group.pictures]


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
    """``RUN/labels/suspicious.json``, where there are labels, and ``outliers.json``."""
    if audited.labels:
        worst = audited.suspects[:SUSPECTS]
        said = ((each.row, f"{each.given} → {each.suggested} {each.probability:.0%}") for each in worst)
        shown = _small(said, stored, source)
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
    data, how = io.BytesIO(), Image.Resampling.LANCZOS
    ImageOps.fit(picture.convert("RGB"), (SIDE, SIDE), how).save(data, "JPEG", quality=QUALITY)
    return base64.b64encode(data.getvalue()).decode()
