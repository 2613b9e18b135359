"""The application: the page, its state, its pictures by number, and the few things that it may ask to be done.

A function of a session and its pictures; it starts nothing and listens nowhere.
"""

import json
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from eigenview.app.exporting import Form, export_labels
from eigenview.app.gate import Gate, Tokens
from eigenview.app.lists import Lists, Words
from eigenview.app.session import NONE, Conflict, Session, Standing
from eigenview.app.thinking import Spread, Thinking
from eigenview.app.thumbnails import Thumbnails
from eigenview.data import Source
from eigenview.errors import DataError, EigenviewError
from eigenview.files import JSON
from eigenview.names import first_mistake

QUEUE = 40  # rows to ask that the page is told of
SHOWN = 100  # at most, that it asks about
PATIENCE = 5.0  # seconds that a page waits before it asks again: a browser has six connections for all its windows
NO_CLASS = 65535
GIVEN, BEFORE, STRUCK, SKIPPED = 1, 2, 4, 8  # of a picture
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
OWN = ("label.css", "label.js", "tiles.js", "ask.js", "map.js", "review.js", "start.js")
SHARED = ("theme.css", "theme.js", "marks.js", "plane.js")  # with the report


class Ask(BaseModel):
    """What the page may send: these fields, of these kinds, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SkipAsk(Ask):
    rows: list[int] = Field(min_length=1, max_length=1_000_000)


class StrikeAsk(SkipAsk):
    label: str = Field(max_length=400)
    had: list[str] | None = None


class AnswerAsk(StrikeAsk):
    mode: Literal["ask", "map", "review"]


class UndoAsk(Ask):
    last: int


class ExportAsk(Ask):
    form: Form
    certain: float = Field(ge=0, le=1)


Kind = TypeVar("Kind", bound=Ask)
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Page:
    """All that the page is about. ``source``: the pictures, where they are not found by their names."""

    session: Session
    thinking: Thinking
    thumbnails: Thumbnails
    title: str
    out: Path  # where exports go
    source: Source | None = None
    words: Words | None = None

    @cached_property
    def lists(self) -> Lists:
        return Lists(self.session, self.thinking, self.words)

    def state(self, shown: Sequence[int] = ()) -> dict[str, JSON]:
        """How things stand, what to ask next, and what became of the rows that the page shows."""
        session, thinking = self.session, self.thinking
        with session.changed:
            standing, sizes = session.standing, session.sizes()
            figures, lines = session.figures(), len(session.journal.entries)
            told: dict[str, JSON] = {str(row): session.said_of(row) for row in shown}
        classes: list[JSON] = [{"name": name, "known": sizes[name]} for name in standing.classes]
        figures_json: dict[str, JSON] = dict(figures)
        return {
            "turn": standing.turn,
            "lines": lines,  # of two states the newer has more, or as many
            "last": standing.last,
            "images": len(session.stored),
            "classes": classes,
            "queue": list(standing.queue[:QUEUE]),
            "waiting": len(standing.queue),
            "skipped": len(standing.skipped),
            "figures": figures_json,
            "shown": told,
            "doing": "" if thinking.problem else thinking.doing,
            "problem": thinking.problem,
            "has_map": thinking.places is not None,
            "has_words": self.words is not None,
            "lost": session.lost,
            "title": self.title,
            "pictures": self.thumbnails.stamp,
            "none": NONE,
        }

    def spread_bytes(self, spread: Spread) -> bytes:
        """A length, JSON of that many bytes, then for each picture its class, its probability, and what is known."""
        session, count = self.session, len(self.session.stored)
        best, probability = spread.best()
        flags = np.zeros(count, dtype=np.uint8)
        with session.changed:
            standing, known = session.standing, session.known()
        for rows, flag in ((session.existing, BEFORE), (standing.struck, STRUCK), (standing.skipped, SKIPPED)):
            flags[list(rows)] |= flag
        flags[list(standing.said)] |= GIVEN
        classes = list(spread.classes) if len(spread.classes) else list(standing.classes)
        classes += [name for name in standing.classes if name not in classes]
        numbers = {name: number for number, name in enumerate(classes)}
        best = np.where(best < 0, NO_CLASS, best).astype("<u2")
        if known:  # what was said since then counts at once
            rows_known = list(known)
            best[rows_known] = [numbers[name] for name in known.values()]
        shares = np.rint(probability * 255).astype(np.uint8)
        if known:
            shares[rows_known] = 255
        struck = [row for row in standing.struck if row not in known]
        best[struck], shares[struck] = NO_CLASS, 0
        head = json.dumps({"turn": spread.turn, "now": standing.turn, "classes": classes}).encode()
        head += b" " * (-len(head) % 4)
        return struct.pack("<I", len(head)) + head + best.tobytes() + shares.tobytes() + flags.tobytes()

    def answer(self, ask: AnswerAsk) -> Standing:
        predicted, probability = "", 0.0
        row = ask.rows[0]
        is_question = ask.mode == "ask" and len(ask.rows) == 1 and 0 <= row < len(self.session.stored)
        if is_question and not self.session.label(row):
            predicted, probability = self.thinking.spread.says(row)
        return self.session.answer(**dict(ask), predicted=predicted, probability=probability)

    def export(self, ask: ExportAsk) -> dict[str, JSON]:
        exported = export_labels(self.session, self.out, ask.form, certain=ask.certain, source=self.source)
        return {**asdict(exported), "folder": str(exported.folder)}

    def names(self) -> list[JSON]:
        """What pictures are called, without what all begin with."""
        paths = self.session.stored.paths
        first, last = min(paths), max(paths)
        same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        shared = first[:same].rpartition("/")
        return [path[len(shared[0]) + len(shared[1]) :] for path in paths]


def build_app(page: Page, tokens: Tokens) -> Gate:
    """The application behind its gate."""
    session = page.session
    routes = [
        Route("/", _home),
        Route("/static/{name}", _static),
        Route("/api/state", _asked(lambda request: _state(page, request))),
        Route("/api/questions", _asked(lambda request: _questions(page, request))),
        Route("/api/spread", _asked(lambda request: _spread(page, request))),
        Route("/api/map", _asked(lambda request: _map(page))),
        Route("/api/names", _asked(lambda request: JSONResponse(page.names()))),
        Route("/api/list/{kind}", _asked(lambda request: _list(page, request))),
        Route("/small/{row:int}", _asked(lambda request: _picture(page.thumbnails.small, page, request))),
        Route("/large/{row:int}", _asked(lambda request: _picture(page.thumbnails.large, page, request))),
        Route("/api/answer", _done(page, AnswerAsk, page.answer), methods=["POST"]),
        Route("/api/skip", _done(page, SkipAsk, lambda ask: session.skip(ask.rows)), methods=["POST"]),
        Route("/api/strike", _done(page, StrikeAsk, lambda ask: session.strike(**dict(ask))), methods=["POST"]),
        Route("/api/undo", _done(page, UndoAsk, lambda ask: session.undo(ask.last)), methods=["POST"]),
        Route("/api/export", _done(page, ExportAsk, page.export), methods=["POST"]),
    ]
    return Gate(Starlette(routes=routes), tokens)


def _asked(read: Callable[[Request], Response]) -> Endpoint:
    """An answer to a GET, in a thread; a mistake is JSON."""

    async def endpoint(request: Request) -> Response:
        try:
            return await run_in_threadpool(read, request)
        except EigenviewError as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    return endpoint


def _done(page: Page, kind: type[Kind], act: Callable[[Kind], dict[str, JSON] | Standing]) -> Endpoint:
    """A deed asked for by POST: checked, done in a thread, answered with what came of it, or how things stand then."""

    def done(ask: Kind, request: Request) -> Response:
        made = act(ask)
        return _state(page, request) if isinstance(made, Standing) else JSONResponse(made)

    async def endpoint(request: Request) -> Response:
        try:
            ask = kind.model_validate_json(await request.body())
            return await run_in_threadpool(done, ask, request)
        except ValidationError as error:
            return JSONResponse({"error": first_mistake(error)}, status_code=400)
        except Conflict as error:
            return JSONResponse({"error": str(error)}, status_code=409)
        except EigenviewError as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    return endpoint


async def _home(request: Request) -> Response:
    return Response(_asset("label.html"), media_type="text/html")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in (*OWN, *SHARED):
        return Response(status_code=404)
    return Response(_asset(name), media_type=KINDS[Path(name).suffix])


def _asset(name: str) -> str:
    """A file of the page's own, or one that it shares with the report, of whose code it needs none."""
    folder = files("eigenview") / ("report/assets" if name in SHARED else "app/static")
    return (folder / name).read_text(encoding="utf-8")


def _state(page: Page, request: Request) -> Response:
    numbers = request.query_params.get("shown", "").split(",")[:SHOWN]
    rows = (int(number) for number in numbers if number.isdecimal() and len(number) < 12)
    return JSONResponse(page.state([row for row in rows if row < len(page.session.stored)]))


def _questions(page: Page, request: Request) -> Response:
    page.thinking.wait_for_questions(PATIENCE, newest="newest" in request.query_params)
    return _state(page, request)


def _spread(page: Page, request: Request) -> Response:
    wanted = request.query_params.get("turn", "0")
    if "now" not in request.query_params:
        page.thinking.wait_for(int(wanted) if wanted.isdecimal() else 0, PATIENCE)
    spread = page.thinking.spread
    return Response(page.spread_bytes(spread), media_type="application/octet-stream")


def _map(page: Page) -> Response:
    if page.thinking.places is None:
        return JSONResponse({"error": "the map is being made; a moment"}, status_code=400)
    return Response(page.thinking.places.astype("<u2").tobytes(), media_type="application/octet-stream")


def _list(page: Page, request: Request) -> Response:
    try:
        listed = page.lists.find(request.path_params["kind"], request.query_params.get("about", ""))
    except DataError as error:  # there is nothing to show yet, which is no mistake of the page
        return JSONResponse({"rows": [], "notes": {}, "title": "", "why": str(error)})
    return JSONResponse({"rows": listed.rows, "notes": listed.notes, "title": listed.title, "why": ""})


def _picture(made: Callable[[int], bytes | None], page: Page, request: Request) -> Response:
    row = request.path_params["row"]
    data = made(row) if row < len(page.session.stored) else None
    page.thinking.looked_at()
    if data is None:
        return Response(status_code=404)
    return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})
