"""Contact sheets: pictures in rows, each with a figure and its name underneath, as one PNG."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import wrap

from PIL import Image, ImageDraw, ImageFont

from eigenview.data import Source
from eigenview.errors import SettingError
from eigenview.files import atomic_path, free_path
from eigenview.names import counted, slug
from eigenview.search.duplicate_sets import DuplicateSets
from eigenview.search.neighbour_search import Answer
from eigenview.search.pictures import Pictures, picture_of_file
from eigenview.search.stored import Embeddings
from eigenview.views.picture import paste_fitted

TILE, GAP, MARGIN = 132, 14, 28
LINE, HEADING = 17, 26
WIDEST_TITLE = 900
PAPER, CARD, INK, FAINT, ACCENT, RULE = "#ffffff", "#f1f3f5", "#1f2933", "#6b7785", "#0b6bcb", "#d9dee4"

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
COLUMNS = 8  # pictures side by side
MOST_SETS, MOST_IN_SET = 40, 16  # shown on a sheet of duplicates
MOST_QUERIES = 40
CAPTION_WIDTH, CAPTION_LINES = 20, 4  # letters, and lines of them, under a picture
LONGEST_NAME = 40  # letters of an image's name in a sheet's: four bytes each at most


@dataclass(frozen=True)
class Tile:
    """A picture (None: it is gone) with lines of text; the first line is set in ink, the rest faint."""

    picture: Image.Image | None
    lines: tuple[str, ...]
    is_marked: bool = False  # framed, as the query is


@dataclass(frozen=True)
class Block:
    """A heading, perhaps a tile set apart at the left, and the others beside it, as many lines of them as needed."""

    heading: str
    lead: Tile | None
    tiles: tuple[Tile, ...]


def write_sheet(title: str, blocks: list[Block], out: Path, *, columns: int = COLUMNS) -> Path:
    """Draw the blocks below each other and write a PNG, whole or not at all."""
    sheet = draw_sheet(title, blocks, columns=columns)
    with atomic_path(out) as file:
        sheet.save(file, format="PNG")
    return out


def draw_sheet(title: str, blocks: list[Block], *, columns: int) -> Image.Image:
    most = max((len(block.tiles) for block in blocks), default=0)
    across = -(-most // -(-most // max(1, columns))) if most else 1  # lines of about one length
    has_lead = any(block.lead is not None for block in blocks)
    left = MARGIN + (TILE + 3 * GAP if has_lead else 0)
    asked = round(font(17).getlength(title)) + 2 * MARGIN + 1
    width = max(left + across * (TILE + GAP) - GAP + MARGIN, min(asked, WIDEST_TITLE))
    lines = max((len(tile.lines) for block in blocks for tile in (*block.tiles, block.lead) if tile), default=1)
    step = TILE + 6 + lines * LINE + GAP
    heights = [HEADING * bool(block.heading) + step * max(1, -(-len(block.tiles) // across)) + GAP for block in blocks]
    sheet = Image.new("RGB", (width, MARGIN + HEADING + GAP + sum(heights) + MARGIN - GAP), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN - 8), _fitted(title, font(17), width - 2 * MARGIN), fill=INK, font=font(17))
    top = MARGIN + HEADING + GAP
    for block, height in zip(blocks, heights, strict=True):
        pen.line([(MARGIN, top - GAP), (width - MARGIN, top - GAP)], fill=RULE)
        if block.heading:
            pen.text((MARGIN, top), _fitted(block.heading, font(14), width - 2 * MARGIN), fill=INK, font=font(14))
        start = top + HEADING * bool(block.heading)
        if block.lead is not None:
            _draw_tile(sheet, pen, block.lead, MARGIN, start)
            middle = MARGIN + TILE + GAP + GAP // 2
            pen.line([(middle, start), (middle, top + height - 2 * GAP)], fill=RULE)
        for number, tile in enumerate(block.tiles):
            _draw_tile(sheet, pen, tile, left + number % across * (TILE + GAP), start + number // across * step)
        top += height
    return sheet


@cache
def font(size: int) -> Font:
    """DejaVu where the machine has it, which knows most alphabets; otherwise the one that comes with Pillow."""
    try:
        return ImageFont.truetype("DejaVuSans.ttf", size - 1)
    except OSError:
        return ImageFont.load_default(size)


def _draw_tile(sheet: Image.Image, pen: ImageDraw.ImageDraw, tile: Tile, left: int, top: int) -> None:
    pen.rectangle([left, top, left + TILE - 1, top + TILE - 1], fill=CARD)
    if tile.picture is None:
        said = "picture not found"
        middle = left + (TILE - pen.textlength(said, font=font(12))) / 2
        pen.text((middle, top + TILE // 2 - 8), said, fill=FAINT, font=font(12))
    else:
        paste_fitted(sheet, tile.picture.convert("RGB"), left, top, TILE, Image.Resampling.BICUBIC)
    if tile.is_marked:
        pen.rectangle([left - 4, top - 4, left + TILE + 3, top + TILE + 3], outline=ACCENT, width=3)
    for number, line in enumerate(tile.lines):
        place = (left, top + TILE + 6 + number * LINE)
        pen.text(place, _fitted(line, font(13), TILE + GAP // 2), fill=INK if number == 0 else FAINT, font=font(13))


def _fitted(text: str, chosen: Font, width: float) -> str:
    """The text on one line; if it is too long its end stays, since names differ there."""
    plain = " ".join(text.split())
    if chosen.getlength(plain) <= width:
        return plain
    low, high = 0, len(plain)
    while low < high:  # the most letters that fit behind an ellipsis
        middle = (low + high + 1) // 2
        if chosen.getlength("…" + plain[len(plain) - middle :]) <= width:
            low = middle
        else:
            high = middle - 1
    return "…" + plain[len(plain) - low :]


def contact_sheet(
    answers: Answer | Sequence[Answer],
    embeddings: Embeddings,
    out: str | Path | None = None,
    *,
    source: Source | None = None,
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
    return write_sheet(title, blocks, place)


def duplicates_sheet(
    duplicates: DuplicateSets,
    embeddings: Embeddings,
    out: str | Path | None = None,
    *,
    source: Source | None = None,
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
    return write_sheet(title, blocks, place)


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
