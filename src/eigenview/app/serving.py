"""The page opened: a session beside its embeddings, a socket of this machine alone, and a browser."""

import socket
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

import uvicorn

from eigenview.app.gate import Tokens
from eigenview.app.lists import Words
from eigenview.app.server import Page, build_app
from eigenview.app.session import Session
from eigenview.app.thinking import Thinking
from eigenview.app.thumbnails import Thumbnails
from eigenview.data import Source
from eigenview.errors import EigenviewError, SettingError
from eigenview.labels.label_files import GivenLabels
from eigenview.names import printable
from eigenview.runs import OpenedRun
from eigenview.search.contact import plain_name_of
from eigenview.search.neighbour_search import text_neighbours
from eigenview.search.stored import Embeddings

HERE = "127.0.0.1"
GRACE = 5  # seconds that what is under way may take when the page ends
FOLDER = ".labelling"  # of a session, behind the name of its embeddings


@contextmanager
def opened_page(
    stored: Embeddings,
    *,
    folder: Path | None = None,
    out: Path | None = None,
    existing: GivenLabels | None = None,
    classes: Sequence[str] = (),
    seed: int = 0,
    source: Source | None = None,
    words: Words | None = None,
) -> Iterator[Page]:
    """A session in ``folder``, or beside the embeddings, with its thinking begun; given back when all is over."""
    if len(stored) < 2:
        raise SettingError(f"at least two pictures are needed; {printable(stored.place)} has {len(stored)}")
    place = folder or stored.place.with_name(f"{stored.place.name}{FOLDER}")
    session = Session(place, stored, existing=existing, classes=classes, seed=seed)
    thinking = Thinking(session)
    try:
        thumbnails = Thumbnails(place, stored, source)
        thinking.start()
        name = plain_name_of(stored)
        yield Page(session, thinking, thumbnails, name, out or Path(f"labels-{name}").absolute(), source, words)
    finally:
        thinking.stop()
        session.close()


def serve_page(
    page: Page, *, port: int = 0, opens_browser: bool = True, told: Callable[[str], None] = lambda address: None
) -> None:
    """Until Ctrl-C, which it raises. ``told`` hears the address, with the token; ``port`` 0: any that is free."""
    with listening(port) as sock:
        tokens, address = Tokens(), f"http://{HERE}:{sock.getsockname()[1]}/?token="
        server = server_of(page, tokens)
        told(f"{address}{tokens.token}")
        if opens_browser:
            with suppress(webbrowser.Error):
                webbrowser.open(f"{address}{tokens.once()}")
        server.run(sockets=[sock])
        raise KeyboardInterrupt  # what ends it; the event loop may have swallowed it on the way


class PageServer(uvicorn.Server):
    """A server that lets go of those who wait for the thinking when it ends: they are answered, not cut off."""

    def __init__(self, config: uvicorn.Config, page: Page) -> None:
        super().__init__(config)
        self.page = page

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.page.thinking.end()
        await super().shutdown(sockets)


def server_of(page: Page, tokens: Tokens) -> PageServer:
    """What answers on a socket that it is given."""
    config = uvicorn.Config(
        build_app(page, tokens),
        log_level="warning",
        access_log=False,  # addresses hold the token
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
    )
    return PageServer(config, page)


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A socket of this machine alone; connections wait from now on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HERE, port))
            sock.listen(128)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise SettingError(
                f"cannot listen on port {port}: {why}; choose another (--port), or leave it out"
            ) from None
        yield sock


def words_of(run: OpenedRun, projections: Embeddings, stored: Embeddings) -> Words:
    """Pictures by text, through a run that learnt from captions; ``projections`` are where pictures and words meet."""
    turn = Lock()

    def find(text: str, count: int) -> list[int]:
        with turn:
            (answer,) = text_neighbours(projections, text, run=run, k=count)
        rows = (stored.row_of_path(near.path) for near in answer.neighbours)
        return [row for row in rows if row is not None]

    return find


def knows_words(run: OpenedRun) -> bool:
    try:
        run.needed_text()
    except EigenviewError:
        return False
    return True
