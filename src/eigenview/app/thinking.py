"""The thinking behind the page, in a thread of its own: the graph, labels spread after every answer, what to ask next.

The page never waits for it: an answer is written and the next picture shown from those that were chosen before; they
are chosen, ten at a time, as soon as three are left, from all answers until then.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.app.map_file import kept_places
from eigenview.app.session import Session, Standing
from eigenview.data.source import NO_LABEL
from eigenview.errors import EigenviewError
from eigenview.labels.choosing import choose
from eigenview.labels.kept import KeptGraph
from eigenview.labels.live import LiveLabels

ROUND, LEFT = 10, 3  # pictures chosen at once, and how many may be left before that
PREPARING, CHOOSING = "the graph of what is alike is being read or made", "the next pictures are being chosen"
MOST_AT_ONCE = 8  # labels put one by one; more are spread anew together


@dataclass(frozen=True)
class Spread:
    """What the labels of one ``turn`` say about all pictures."""

    turn: int
    classes: tuple[str, ...]
    probabilities: Tensor  # (n, K); no columns while nothing can be said

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
        """The likeliest class of a row, empty while there is none."""
        if self.is_empty:
            return "", 0.0
        value, number = self.probabilities[row].max(dim=0)
        return self.classes[int(number)], round(float(value), 6)


class Thinking:
    """Follows a session. ``prepare`` reads or makes the graph; ``problem`` says what went wrong, if it did."""

    def __init__(self, session: Session, prepare: Callable[[], KeptGraph]) -> None:
        self.session, self._prepare = session, prepare
        self.kept: KeptGraph | None = None
        self.places: NDArray[np.uint16] | None = None  # (n, 2) of the map
        self.spread = Spread(-1, (), torch.zeros(len(session.stored), 0))
        self.problem = ""
        self.doing = PREPARING
        self._live: LiveLabels | None = None
        self._live_classes: tuple[str, ...] = ()
        self._labels: Tensor | None = None  # those that the spread follows from
        self._is_over = False
        self._thread = Thread(target=self._told(self._work), name="thinking", daemon=True)
        self._drawing = Thread(target=self._told(self._map), name="map", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self.session.changed:
            self._is_over = True
            self.session.changed.notify_all()
        for thread in (self._thread, self._drawing):
            if thread.is_alive():
                thread.join(timeout=30)

    def wait_for(self, turn: int, seconds: float) -> Spread:
        """The spread labels, once they follow from ``turn`` lines; what there is when the time is over."""
        with self.session.changed:
            self.session.changed.wait_for(lambda: self.spread.turn >= turn or self._is_over, timeout=seconds)
        return self.spread

    def wait_for_questions(self, seconds: float) -> Standing:
        """The standing, once there is something to ask, or nothing will be."""
        session = self.session
        with session.changed:
            session.changed.wait_for(lambda: bool(session.standing.queue) or self.is_settled, timeout=seconds)
        return session.standing

    @property
    def is_settled(self) -> bool:
        """Whether nothing will come of waiting."""
        return bool(self.problem) or self._is_over or (self.kept is not None and not self._is_behind())

    def _work(self) -> None:
        self.kept = self._prepare()
        self._tell(CHOOSING)
        self._drawing.start()
        while not self._is_over:
            self._follow()
            with self.session.changed:
                self.session.changed.wait_for(lambda: self._is_over or self._is_behind())

    def _told(self, work: Callable[[], None]) -> Callable[[], None]:
        """The same, and what goes wrong in it is told on the page, which would wait for ever."""

        def told() -> None:
            try:
                work()
            except EigenviewError as error:
                self._tell("", problem=str(error))
            except Exception as error:  # a bug
                traceback.print_exc(file=sys.stderr)
                self._tell("", problem=f"{type(error).__name__}: {error}")

        return told

    def _tell(self, doing: str, *, problem: str = "") -> None:
        with self.session.changed:
            self.doing, self.problem = doing, problem or self.problem
            self.session.changed.notify_all()

    def _is_behind(self) -> bool:
        return self.spread.turn < self.session.standing.turn or self._lacks(self.session.standing)

    def _follow(self) -> None:
        """Questions first where there are none; then labels; then more questions."""
        if not self.session.standing.queue:
            self._ask()
        while self.spread.turn < self.session.standing.turn and not self._is_over:
            self._spread()
            self._ask()

    def _lacks(self, standing: Standing) -> bool:
        """Whether it is time to choose: three or fewer wait, and there are others."""
        waiting = {*standing.queue, *standing.skipped, *standing.struck}
        others = len(self.session.stored) - len(self.session.known().keys() | waiting)
        return len(standing.queue) <= LEFT and others > 0

    def _ask(self) -> None:
        """Choose the next ten; those that wait, or were skipped, are left out by choosing so many more."""
        session = self.session
        with session.changed:
            standing, given = session.standing, session.given()
        if self.kept is None or not self._lacks(standing):
            return
        waiting = {*standing.queue, *standing.skipped, *standing.struck} - set(session.known())
        free = len(session.stored) - given.count
        rows = choose(self.kept.graph, min(ROUND + len(waiting), free), labels=given.labels, seed=session.seed)
        session.ask([row for row in rows.tolist() if row not in waiting][:ROUND], after=standing.turn)

    def _spread(self) -> None:
        with self.session.changed:
            turn, (labels, classes) = self.session.standing.turn, self.session.numbers()
        kept = self.kept
        assert kept is not None
        if self._is_same(labels, classes):
            probabilities = self.spread.probabilities  # only questions were added
        elif len(classes) < 2:
            self._live = None
            probabilities = torch.zeros(len(labels), 0)
        else:
            probabilities = self._up_to_date(kept, labels, classes).probabilities()
        self._labels = labels
        with self.session.changed:
            self.spread = Spread(turn, classes, probabilities)
            self.session.changed.notify_all()

    def _is_same(self, labels: Tensor, classes: tuple[str, ...]) -> bool:
        return self._labels is not None and self.spread.classes == classes and torch.equal(self._labels, labels)

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
        assert self.kept is not None
        places = kept_places(self.session, self.kept)
        with self.session.changed:
            self.places = places
            self.session.changed.notify_all()
