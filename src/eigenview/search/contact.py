"""Contact sheets of answers and of sets of duplicates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from eigenview.data import Source
from eigenview.errors import SettingError
from eigenview.files import free_path
from eigenview.names import counted, slug
from eigenview.search.duplicate_sets import DuplicateSets
from eigenview.search.neighbour_search import Answer
from eigenview.search.pictures import Pictures, picture_of_file
from eigenview.search.sheet import Block, Tile, write_sheet
from eigenview.search.stored import Embeddings

COLUMNS = 8  # pictures side by side
MOST_SETS, MOST_IN_SET = 40, 16  # shown on a sheet of duplicates
MOST_QUERIES = 40
CAPTION_WIDTH, CAPTION_LINES = 20, 4  # letters, and lines of them, under a picture
LONGEST_NAME = 40  # letters of an image's name in a sheet's: four bytes each at most


def contact_sheet(
    answers: Answer | Sequence[Answer],
    embeddings: Embeddings,
    out: str | Path | None = None,
    *,
    source: Source | None = None,
    columns: int = COLUMNS,
) -> Path:
    """A PNG: each query at the left, framed, and its neighbours beside it with cosine, name and class.

    Pictures come from ``source`` if given, from their files, or from the source that the embeddings remember; one that
    is gone leaves a grey field. At most 40 queries are shown. ``out`` is replaced; without it, the sheet is called
    after its query, ``neighbours-QUERY.png``, with a number behind it where there is such a file.
    """
    given = [answers] if isinstance(answers, Answer) else list(answers)
    if not given:
        raise SettingError("a contact sheet needs at least one answer; got none")
    others = f"-and-{len(given) - 1}-more" if len(given) > 1 else ""
    place = _place(out, f"neighbours-{_plain_name(given[0].query)}{others}")
    pictures = Pictures(embeddings, source)
    blocks = [_answered(answer, pictures) for answer in given[:MOST_QUERIES]]
    more = f", {MOST_QUERIES} of {len(given)} queries shown" if len(given) > MOST_QUERIES else ""
    title = f"Nearest by cosine among {counted(len(embeddings), 'image')}{_origin(embeddings)}{more}"
    return write_sheet(title, blocks, place, columns=columns)


def duplicates_sheet(
    duplicates: DuplicateSets,
    embeddings: Embeddings,
    out: str | Path | None = None,
    *,
    source: Source | None = None,
    columns: int = COLUMNS,
) -> Path:
    """A PNG of the sets, closest first: 40 sets of up to 16 pictures each; headings say how many there are.

    ``out`` is replaced; without it, the sheet is called after the embeddings, ``duplicates-NAME.png``, with a number
    behind it where there is such a file.
    """
    place = _place(out, f"duplicates-{plain_name_of(embeddings)}")
    pictures = Pictures(embeddings, source)
    blocks = []
    for number, copies in enumerate(duplicates.sets[:MOST_SETS], start=1):
        shown = copies.members[:MOST_IN_SET]
        more = f", {len(shown)} shown" if len(shown) < len(copies.members) else ""
        tiles = tuple(
            Tile(pictures.of_row(member.row), (member.match, *_lines(member.path, member.label))) for member in shown
        )
        cosines = f"{copies.lowest:.4f}" + (f" to {copies.highest:.4f}" if len(copies.members) > 2 else "")
        heading = f"Set {number}: {len(copies.members)} images{more}, cosine {cosines}"
        blocks.append(Block(heading, None, tiles))
    what = counted(len(duplicates.sets), "set") if duplicates.sets else "No sets"
    title = f"{what} of copies, confirmed on their pixels{_origin(embeddings)}"
    return write_sheet(title, blocks, place, columns=columns)


def _answered(answer: Answer, pictures: Pictures) -> Block:
    tiles = tuple(
        Tile(pictures.of_row(near.row), (f"{near.cosine:.4f}", *_lines(near.path, near.label, near.caption)))
        for near in answer.neighbours
    )
    if answer.is_text:
        return Block(answer.query, None, tiles)
    own = pictures.of_row(answer.row) if answer.row is not None else picture_of_file(Path(answer.query))
    lead = Tile(own, ("query", *_lines(answer.query, answer.label)), is_marked=True)
    return Block("" if tiles else "no other image to compare with", lead, tiles)


def _lines(path: str, label: str | None, caption: str | None = None) -> tuple[str, ...]:
    """The file's name, then its caption, which says more than a label, over a few lines."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    if caption is None:
        return (name, *([label] if label is not None else []))
    return (name, *wrap(caption, CAPTION_WIDTH, max_lines=CAPTION_LINES, placeholder=" …"))


def _origin(embeddings: Embeddings) -> str:
    about = embeddings.about
    return f" ({about.run}, {about.layer})" if about is not None else ""


def _place(out: str | Path | None, name: str) -> Path:
    """Where a sheet goes: there, or under its own name in the working directory, numbered where that is taken."""
    if out is None:
        return free_path(name, ".png")
    place = Path(out)
    if place.suffix.lower() != ".png":
        raise SettingError(f"a contact sheet is a .png file; got {place.name!r}")
    return place


def plain_name_of(embeddings: Embeddings) -> str:
    """What files about embeddings are called after: their run, or their own file."""
    return _plain_name(embeddings.about.run if embeddings.about is not None else embeddings.place.stem)


def _plain_name(path: str) -> str:
    """The name of an image without its suffix, in letters that any file may be called by."""
    name = re.sub(r"\.(jpe?g|png|webp|bmp|tiff?|gif|heic|avif)$", "", re.split(r"[/\\]", path)[-1], flags=re.IGNORECASE)
    return slug(name)[:LONGEST_NAME] or "image"
