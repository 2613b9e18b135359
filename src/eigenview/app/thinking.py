"""The thinking behind the page, in threads of its own: the graph; after every answer labels spread, questions chosen.

The page never waits for it: an answer is written, and the next picture shown of those that were chosen before. Ten are
chosen anew by all answers until then, and take the place of those that wait; only what the page shows stays.
"""

import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.app.session import Session
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError, EigenviewError
from eigenview.labels.choosing import choose, needs_edges, unjoined
from eigenview.labels.graph import KeptGraph, graph_rows, kept_graph
from eigenview.labels.live import LiveLabels
from eigenview.search.approximate import content_digest
from eigenview.tensors import read_sealed, save_sealed

ROUND, LEFT = 10, 3  # pictures chosen at once, and how many may be left before that though no label is new
READING, CHOOSING = "the embeddings are being read", "the next pictures are being chosen"
PREPARING = "the graph of what is alike is being read, or made and kept"
FIRST_LOOK = 2.0  # seconds that it waits for a page which has questions to show its first picture
MOST_AT_ONCE = 8  # labels put one by one; more are spread anew together
MAP = "map.safetensors"  # where each picture lies on the map: found once, kept in the session's folder


@dataclass(frozen=True)
class Spread:
    """What the labels of one ``turn`` say about all pictures."""

    turn: int
    classes: tuple[str, ...]
    probabilities: Tensor  # (n, K); no columns while nothing can be said
    labels: Tensor  # (n,) those that they follow from, −1 for none

    @property
    def is_empty(self) -> bool:
        return self.probabilities.shape[1] == 0

    def best(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(n,) likeliest classes and how likely: −1 and 0 while nothing can be said."""
        if self.is_empty:
            count = len(self.probabilities)
            return np.full(count, NO_LABEL), np.zeros(count, dtype=np.float32)
        top = self.probabilities.max(dim=1)
        return top.indices.numpy(), top.values.float().numpy()

    def says(self, row: int) -> tuple[str, float]:
        """The likeliest class of a row that had no label then; empty while there is none."""
        if self.is_empty or int(self.labels[row]) != NO_LABEL:
            return "", 0.0
        value, number = self.probabilities[row].max(dim=0)
        return self.classes[int(number)], round(float(value), 6)


class Thinking:
    """Follows a session. ``problem`` says what went wrong, if something did."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.kept: KeptGraph | None = None
        self.places: NDArray[np.uint16] | None = None  # (n, 2) of the map
        count = len(session.stored)
        self.spread = Spread(-1, (), torch.zeros(count, 0), torch.full((count,), NO_LABEL))
        self.problem = ""
        self._rows: Tensor | None = None  # of the graph: there before its edges are
        self._live: LiveLabels | None = None
        self._live_classes: tuple[str, ...] = ()
        self._is_over = self._is_looked_at = False
        works = {"thinking": self._think, "choosing": self._choose, "map": self._map}
        self._threads = [Thread(target=self._told(work), name=name, daemon=True) for name, work in works.items()]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def looked_at(self) -> None:
        """A picture was shown: what takes a core does not stand in its way any more."""
        if not self._is_looked_at:
            with self.session.changed:
                self._is_looked_at = True
                self.session.changed.notify_all()

    def end(self) -> None:
        """Nobody waits for anything from now on."""
        with self.session.changed:
            self._is_over = True
            self.session.changed.notify_all()

    def stop(self) -> None:
        self.end()
        for thread in self._threads:
            thread.join(timeout=30)

    def wait_for(self, turn: int, seconds: float) -> Spread:
        """The spread labels, once they follow from ``turn`` deeds; what there is when the time is over."""
        self._wait(lambda: self.spread.turn >= turn, seconds)
        return self.spread

    def wait_for_questions(self, seconds: float, *, newest: bool = False) -> None:
        """Until there is something to ask, or nothing will be; ``newest``: until that is chosen by all labels."""
        session = self.session
        self._wait(lambda: bool(session.standing.queue and not newest) or not self.doing or self.problem, seconds)

    @property
    def doing(self) -> str:
        """What is being done that questions wait for; empty: nothing."""
        if self._rows is None or self.kept is None:
            return READING if self._rows is None else PREPARING
        return CHOOSING if self._lacks_questions() else ""

    def _wait(self, is_so: Callable[[], object], seconds: float | None = None) -> bool:
        """Until it is so; whether it goes on at all."""
        with self.session.changed:
            self.session.changed.wait_for(lambda: self._is_over or is_so(), timeout=seconds)
        return not self._is_over

    def _think(self) -> None:
        stored = self.session.stored
        if self.session.standing.queue:
            self._wait(lambda: self._is_looked_at, FIRST_LOOK)
        projection, rows = graph_rows(stored)
        self._tell(rows=rows)
        self._tell(kept=kept_graph(stored, rows_known=(projection, rows)))
        while self._wait(lambda: self.spread.turn < self.session.standing.turn):
            self._spread()

    def _choose(self) -> None:
        while self._wait(lambda: self._can_choose() and self._lacks_questions()):
            # by the labels of now; enough that those which wait, were skipped or struck out can be left out
            session = self.session
            with session.changed:
                standing, given, lines = session.standing, session.given(), len(session.journal.entries)
            free = len(session.stored) - given.count
            count = min(ROUND + 1 + len(standing.skipped) + len(standing.struck), free)
            assert self._rows is not None
            graph = unjoined(self._rows) if self.kept is None else self.kept.graph
            session.ask(choose(graph, count, labels=given.labels, seed=session.seed).tolist(), after=lines, most=ROUND)

    def _told(self, work: Callable[[], None]) -> Callable[[], None]:
        """The same, and what goes wrong in it is told on the page, which would wait for ever."""

        def told() -> None:
            try:
                work()
            except EigenviewError as error:
                self._tell(problem=str(error))
            except Exception as error:  # a bug
                traceback.print_exc(file=sys.stderr)
                self._tell(problem=f"{type(error).__name__}: {error}")

        return told

    def _tell(self, *, problem: str = "", rows: Tensor | None = None, kept: KeptGraph | None = None) -> None:
        with self.session.changed:
            self.problem = problem or self.problem
            self._rows = self._rows if rows is None else rows
            self.kept = kept or self.kept
            self.session.changed.notify_all()

    def _can_choose(self) -> bool:
        """Labels are spread first, while there is something to ask; without edges only what needs none is chosen."""
        session, standing = self.session, self.session.standing
        if self.kept is not None:
            return self.spread.turn >= standing.turn or not standing.queue
        return self._rows is not None and not needs_edges(len(session.stored), len(set(session.known().values())))

    def _lacks_questions(self) -> bool:
        """Whether there are pictures to choose, and labels that they were not chosen by, or few that wait."""
        standing = self.session.standing
        if standing.is_fresh and len(standing.queue) > LEFT:
            return False
        waiting = standing.queue if standing.is_fresh else standing.queue[:1]
        others = self.session.known().keys() | {*waiting, *standing.skipped, *standing.struck}
        return len(self.session.stored) > len(others)

    def _spread(self) -> None:
        with self.session.changed:
            turn, (labels, classes) = self.session.standing.turn, self.session.numbers()
        kept = self.kept
        assert kept is not None
        spread = self.spread
        if spread.turn >= 0 and spread.classes == classes and torch.equal(spread.labels, labels):
            probabilities = spread.probabilities  # only questions were added
        elif len(classes) < 2:
            self._live = None
            probabilities = torch.zeros(len(labels), 0)
        else:
            probabilities = self._up_to_date(kept, labels, classes).probabilities()
        with self.session.changed:
            self.spread = Spread(turn, classes, probabilities, labels)
            self.session.changed.notify_all()

    def _up_to_date(self, kept: KeptGraph, labels: Tensor, classes: tuple[str, ...]) -> LiveLabels:
        """Labels put one by one where they are few and of known classes; otherwise all anew."""
        live = self._live
        if live is not None and self._live_classes == classes:
            rows = (live.labels != labels).nonzero().flatten().tolist()
            if len(rows) <= MOST_AT_ONCE:
                for row in rows:
                    live.put(row, int(labels[row]))
                return live
        self._live, self._live_classes = LiveLabels(kept.graph, labels, classes=len(classes)), classes
        return self._live

    def _map(self) -> None:
        if self._wait(lambda: self.kept is not None or self.problem) and self.kept is not None:
            self.places = kept_places(self.session, self.kept)


def kept_places(session: Session, kept: KeptGraph) -> NDArray[np.uint16]:
    """(n, 2) within 0 … 65535; one of other vectors, or damaged, is made anew."""
    file, content = session.folder / MAP, content_digest(session.stored)
    with suppress(DataError, KeyError):
        tensors, notes = read_sealed(file)
        if notes.get("content") == content and tensors["places"].shape == (len(session.stored), 2):
            return tensors["places"].numpy().astype(np.uint16)
    from eigenview.report.charts import on_grid  # seconds of import, for what is done once
    from eigenview.report.structure import first_projection

    rows, near = kept.graph.rows, kept.graph.neighbours.index.numpy()
    places = on_grid(first_projection(rows, seed=session.seed, neighbours=near).places).astype(np.uint16)
    with suppress(DataError):
        save_sealed(file, {"places": torch.from_numpy(places.astype(np.int32))}, {"content": content})
    return places
