"""Pictures in an order worth looking through: the least sure, labels to doubt, a class, the neighbours of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch

from eigenview.app.session import Session
from eigenview.app.thinking import Spread, Thinking
from eigenview.errors import DataError, SettingError
from eigenview.graph.nearest import nearest
from eigenview.labels.audits import audit
from eigenview.labels.graph import ImageGraph
from eigenview.names import Table

NEAR, FOUND = 200, 200  # pictures shown beside one, and to words
RANDOM = 500

Words = Callable[[str, int], Sequence[int]]  # text and how many → rows, nearest first


@dataclass(frozen=True)
class Listed:
    """Rows in order, and what may be said of some: what a doubted label probably is."""

    rows: list[int]
    notes: dict[int, str] = field(default_factory=dict)
    title: str = ""


class Lists:
    """What review and search show. ``words`` finds rows by text, where the encoder knows words."""

    def __init__(self, session: Session, thinking: Thinking, words: Words | None = None) -> None:
        self.session, self.thinking, self.words = session, thinking, words
        self._audited = lru_cache(1)(self._audit)

    def find(self, kind: str, about: str) -> Listed:
        return LISTS.find(kind)(self, about)

    def unsure(self, _: str = "") -> Listed:
        """Pictures without a label, the one whose two likeliest classes are closest first."""
        spread = self._spread()
        best = spread.probabilities.topk(min(2, spread.probabilities.shape[1]), dim=1).values
        margin = best[:, 0] - best[:, -1]
        open_rows = torch.tensor(self._open(), dtype=torch.long)
        return Listed(open_rows[margin[open_rows].argsort(stable=True)].tolist())

    def of_class(self, about: str) -> Listed:
        """Pictures that were found to be of a class, or were of it before, the least sure first.

        Of labels that were there before, how sure they are is what their neighbours have of the class.
        """
        session, spread = self.session, self.thinking.spread
        if about not in session.standing.classes:
            raise SettingError(f"no class is called {about!r} yet")
        settled = session.standing.said.keys() | session.standing.struck
        before = [row for row, name in session.existing.items() if name == about and row not in settled]
        if spread.is_empty and not before:
            self._spread()
        if about not in spread.classes:
            return Listed(sorted(before))
        number, (best, sureness) = spread.classes.index(about), spread.best()
        likely = [row for row in self._open() if best[row] == number and row not in settled]
        if before:
            near = self._graph().neighbours.index[before]
            sureness[before] = spread.probabilities[:, number][near].mean(dim=1).numpy()
        rows = np.array([*likely, *before], dtype=np.int64)
        return Listed(rows[np.argsort(sureness[rows], kind="stable")].tolist())

    def of_hand(self, about: str) -> Listed:
        """Pictures with a label of a person's own, the last first; all, or those of a class."""
        said = self.session.standing.said
        return Listed([row for row, name in reversed(said.items()) if about in ("", name)])

    def suspects(self, _: str = "") -> Listed:
        """Labels that disagree with what is alike, the most suspicious first, and what those pictures probably are."""
        return self._audited(self.session.standing.turn)

    def odd(self, _: str = "") -> Listed:
        """Pictures that are like no others, by the mean cosine with their neighbours."""
        return Listed(self._graph().neighbours.similarity.mean(dim=1).argsort(stable=True)[:RANDOM].tolist())

    def skipped(self, _: str = "") -> Listed:
        return Listed(list(self.session.standing.skipped))

    def random(self, _: str = "") -> Listed:
        """Pictures without a label, drawn by the session's seed: what they are like on the whole."""
        rows = np.array(self._open(), dtype=np.int64)
        return Listed(np.random.default_rng(self.session.seed).permutation(rows)[:RANDOM].tolist())

    def near(self, about: str) -> Listed:
        """The pictures most like one, itself first."""
        stored, row = self.session.stored, int(about) if about.isdecimal() else -1
        if not 0 <= row < len(stored):
            raise SettingError(f"pictures have the numbers 0 … {len(stored) - 1}; got {about!r}")
        rows = self._graph().rows
        near = nearest(rows, rows[row : row + 1], k=min(NEAR, len(rows) - 1), own=torch.tensor([row]))
        return Listed([row, *near.index[0].tolist()], title=stored.paths[row])

    def text(self, about: str) -> Listed:
        """The pictures that words describe best."""
        if self.words is None:
            raise SettingError("this encoder knows no words; a run that learnt from captions does")
        if not about.strip():
            raise SettingError("no words were given to look for")
        return Listed(list(self.words(about, min(FOUND, len(self.session.stored)))), title=about)

    def _audit(self, _: int) -> Listed:
        doubts = audit(self.session.stored, self.session.given(), outliers=0, copies=False, seed=self.session.seed)
        probable = {suspect.row: suspect.suggested for suspect in doubts.suspects}
        return Listed(list(probable), probable)

    def _open(self) -> list[int]:
        known = self.session.known()
        return [row for row in range(len(self.session.stored)) if row not in known]

    def _spread(self) -> Spread:
        spread = self.thinking.spread
        if spread.is_empty:
            raise DataError("nothing was spread yet: label pictures of two classes first")
        return spread

    def _graph(self) -> ImageGraph:
        if self.thinking.kept is None:
            raise DataError("the graph of what is alike is not ready yet; a moment")
        return self.thinking.kept.graph


LISTS: Table[Callable[[Lists, str], Listed]] = Table(
    "list",
    {
        "unsure": Lists.unsure,
        "class": Lists.of_class,
        "hand": Lists.of_hand,
        "suspects": Lists.suspects,
        "odd": Lists.odd,
        "skipped": Lists.skipped,
        "random": Lists.random,
        "near": Lists.near,
        "text": Lists.text,
    },
)
