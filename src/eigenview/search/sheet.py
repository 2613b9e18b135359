"""Contact sheets: pictures in rows, each with a figure and its name underneath, as one PNG."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from eigenview.files import atomic_path

TILE, GAP, MARGIN = 132, 14, 28
LINE, HEADING = 17, 26
WIDEST_TITLE = 900
PAPER, CARD, INK, FAINT, ACCENT, RULE = "#ffffff", "#f1f3f5", "#1f2933", "#6b7785", "#0b6bcb", "#d9dee4"

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


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


def write_sheet(title: str, blocks: list[Block], out: Path, *, columns: int) -> Path:
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
    lines = max((len(tile.lines) for block in blocks for tile in _every(block)), default=1)
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


def _every(block: Block) -> list[Tile]:
    return [*block.tiles, *([block.lead] if block.lead is not None else [])]


def _draw_tile(sheet: Image.Image, pen: ImageDraw.ImageDraw, tile: Tile, left: int, top: int) -> None:
    pen.rectangle([left, top, left + TILE - 1, top + TILE - 1], fill=CARD)
    if tile.picture is None:
        _centred(pen, "picture not found", left, top + TILE // 2 - 8)
    else:
        shown = _scaled(tile.picture)
        sheet.paste(shown, (left + (TILE - shown.width) // 2, top + (TILE - shown.height) // 2))
    if tile.is_marked:
        pen.rectangle([left - 4, top - 4, left + TILE + 3, top + TILE + 3], outline=ACCENT, width=3)
    for number, line in enumerate(tile.lines):
        place = (left, top + TILE + 6 + number * LINE)
        pen.text(place, _fitted(line, font(13), TILE + GAP // 2), fill=INK if number == 0 else FAINT, font=font(13))


def _centred(pen: ImageDraw.ImageDraw, text: str, left: int, top: int) -> None:
    pen.text((left + (TILE - pen.textlength(text, font=font(12))) / 2, top), text, fill=FAINT, font=font(12))


def _scaled(picture: Image.Image) -> Image.Image:
    factor = TILE / max(picture.size)
    size = (max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
    return picture.convert("RGB").resize(size, Image.Resampling.BICUBIC if factor > 1 else Image.Resampling.LANCZOS)


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
