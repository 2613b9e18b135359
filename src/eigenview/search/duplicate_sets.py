"""Copies of one picture: sought by their vectors, confirmed on their pixels, gathered into sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappush, heappushpop
from itertools import groupby
from pathlib import Path
from typing import Literal

from torch import Tensor

from eigenview.data import Source
from eigenview.data.likeness import Thumbnail, Verdict, same_picture, thumbnail_of
from eigenview.diagnostics.duplicates import COSINE, Duplicates, near_duplicates
from eigenview.errors import EigenviewError
from eigenview.files import to_json, write_text
from eigenview.progress import progress_bar
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings, open_embeddings

Match = Literal["first", "identical", "same"]
Doubt = Literal["different", "unclear", "missing"]
GRAVER: tuple[Doubt, ...] = ("different", "unclear", "missing")  # where an image has several, the last counts

MOST_PAIRS = 1_000_000
SHOWN, SHOWN_MEMBERS = 10, 4  # sets in the terminal, and images of each
MOST_DOUBTFUL = 100  # pairs that were not confirmed, named
KEPT_THUMBNAILS = 1024  # 65 kB each at most
NARROWER = 4  # where there are too many pairs, 1 − cosine is divided by this, and again


@dataclass(frozen=True)
class Member:
    """An image of a set."""

    row: int  # in the embeddings
    index: int  # in the source
    path: str
    label: str | None
    match: Match  # first: the others were compared with it. identical: equal pixels or files. same: one picture
    cosine: float  # of its vector with the first's


@dataclass(frozen=True)
class DuplicateSet:
    """Copies of one picture: each was compared with the first on the pixels, and confirmed."""

    members: tuple[Member, ...]  # in the order of the source
    lowest: float  # cosine of a member with the first
    highest: float


@dataclass(frozen=True)
class DoubtfulPair:
    """Two images whose vectors are near-identical, though nothing says that they are copies."""

    rows: tuple[int, int]
    paths: tuple[str, str]
    cosine: float
    doubt: Doubt  # different: their pixels say so. unclear: too little detail to tell. missing: a picture is gone


@dataclass(frozen=True)
class DuplicateSets:
    """Sets of copies, the closest first, and what was not confirmed."""

    sets: tuple[DuplicateSet, ...]
    threshold: float  # cosine from which pairs were looked at
    images: int  # that were searched
    alike: int  # images whose vectors are that close to another's
    different: int  # of those: every picture as close is another one
    unclear: int  # there is too little detail to tell
    missing: int  # their pictures, or those as close, could not be found or read
    doubtful: tuple[DoubtfulPair, ...]  # up to 100 pairs that were not confirmed, the closest first
    is_complete: bool  # False: there were more pairs than are looked at

    @property
    def copies(self) -> int:
        """How many images are confirmed copies of another: all members but the first of each set."""
        return sum(len(copies.members) - 1 for copies in self.sets)

    def lines(self) -> list[str]:
        """For a terminal: what is confirmed, the closest sets, and what is not."""
        sets = f"{len(self.sets):,} {'set' if len(self.sets) == 1 else 'sets'} of copies"
        copies = f"{self.copies:,} {'is a copy' if self.copies == 1 else 'are copies'} of another"
        said = [f"{sets} among {self.images:,} images: {copies}, confirmed on the pixels"]
        for shown in self.sets[:SHOWN]:
            paths = [member.path for member in shown.members]
            more = f"  and {len(paths) - SHOWN_MEMBERS:,} more" if len(paths) > SHOWN_MEMBERS else ""
            said.append(f"  {'  =  '.join(paths[:SHOWN_MEMBERS])}{more}")
        doubts = (
            (self.different, "are different pictures"),
            (self.unclear, "have too little detail to tell: not confirmed"),
            (self.missing, "could not be compared, since a picture was not found: not confirmed"),
        )
        if others := sum(count for count, _ in doubts):
            said.append(
                f"{others:,} other images are as close by their vectors (cosine {self.threshold:g} or more), which "
                "proves nothing:"
            )
            said += [f"  {count:,} {what}" for count, what in doubts if count]
        if not self.is_complete:
            said.append("there are more pairs than can be compared: not all are in this list")
        return said

    def to_json(self) -> str:
        return to_json(self)

    def write(self, out: str | Path) -> Path:
        """``to_json`` into a file, whole or not at all."""
        return write_text(Path(out), self.to_json() + "\n")


def duplicates(
    embeddings: Embeddings | str | Path,
    *,
    cosine: float = COSINE,
    most: int = MOST_PAIRS,
    source: Source | None = None,
) -> DuplicateSets:
    """Copies of one picture among the images whose vectors have a cosine of at least ``cosine``.

    Vectors alone prove nothing: plain pictures are near-identical to any encoder, and a chain of them has no end. So
    each candidate is compared with the first of its set on the pixels (:func:`eigenview.data.likeness.same_picture`),
    and joins only if they say that both are one picture. Pictures are found as on contact sheets, or in ``source``.

    Pairs of vectors are found exactly, by :func:`eigenview.diagnostics.near_duplicates`. Where there are more than
    ``most``, the threshold is raised until there are not; ``threshold`` is the one that was used.
    """
    stored = embeddings if isinstance(embeddings, Embeddings) else open_embeddings(embeddings)
    if len(stored) < 2:
        return DuplicateSets((), cosine, len(stored), 0, 0, 0, 0, (), is_complete=True)
    pairs = _pairs(stored.vectors, cosine, most)
    comparison = _Comparison(stored, Pictures(stored, source))
    for row, partners in _by_later_row(pairs):
        comparison.place(row, partners)
    return comparison.result(pairs)


def _pairs(vectors: Tensor, cosine: float, most: int) -> Duplicates:
    """The pairs of that cosine; of a higher one, where there are too many: true copies are the closest of all."""
    pairs = near_duplicates(vectors, cosine=cosine, most=most)
    while not pairs.is_complete and 1 - pairs.threshold > 1e-7:
        pairs = near_duplicates(vectors, cosine=1 - (1 - pairs.threshold) / NARROWER, most=most)
    return pairs


def _by_later_row(pairs: Duplicates) -> Iterator[tuple[int, list[tuple[float, int]]]]:
    """(row, [(cosine, earlier row)] with the closest first), in the order of rows."""
    listed = sorted(
        (later, -cosine, earlier)
        for (earlier, later), cosine in zip(pairs.pairs.tolist(), pairs.cosines.tolist(), strict=True)
    )
    with progress_bar("comparing pixels", total=len(listed)) as advance:
        for row, group in groupby(listed, key=lambda pair: pair[0]):
            partners = [(-cosine, earlier) for _, cosine, earlier in group]
            yield row, partners
            advance(len(partners))


class _Comparison:
    """Images placed one after the other, in the order of rows: each joins the set of an earlier one, or begins one."""

    def __init__(self, stored: Embeddings, pictures: Pictures) -> None:
        self.stored, self.pictures = stored, pictures
        self.first_of: dict[int, int] = {}  # row → the first of its set
        self.members: dict[int, list[Member]] = {}  # first → the others
        self.doubts: dict[int, Doubt] = {}  # row → the gravest
        self.doubtful: list[tuple[float, int, int, Doubt]] = []  # (cosine, first, row, doubt): a heap of the closest
        self._thumbnail = lru_cache(KEPT_THUMBNAILS)(self._read)

    def place(self, row: int, partners: list[tuple[float, int]]) -> None:
        """Compare a row with the firsts of the sets that its earlier ``partners`` are in, the closest first."""
        firsts: dict[int, float] = {}
        for cosine, partner in partners:
            first = self.first_of.get(partner, partner)
            if first not in firsts:
                firsts[first] = cosine if first == partner else _cosine(self.stored.vectors, first, row)
        for first, cosine in firsts.items():
            verdict = self._compare(first, row)
            if verdict == "identical" or verdict == "same":
                self.first_of[row] = first
                self.members.setdefault(first, []).append(self._member(row, verdict, cosine))
                return
            self._doubt(first, row, cosine, verdict)

    def _compare(self, first: int, row: int) -> Verdict | Literal["missing"]:
        a, b = self._thumbnail(first), self._thumbnail(row)
        return "missing" if a is None or b is None else same_picture(a, b).verdict

    def _read(self, row: int) -> Thumbnail | None:
        try:
            image = self.pictures.image(row)
            return None if image is None else thumbnail_of(image)
        except (EigenviewError, OSError, IndexError):
            return None

    def _doubt(self, first: int, row: int, cosine: float, doubt: Doubt) -> None:
        for either in (first, row):
            self.doubts[either] = max(self.doubts.get(either, doubt), doubt, key=GRAVER.index)
        if len(self.doubtful) < MOST_DOUBTFUL:
            heappush(self.doubtful, (cosine, first, row, doubt))
        else:
            heappushpop(self.doubtful, (cosine, first, row, doubt))

    def result(self, pairs: Duplicates) -> DuplicateSets:
        sets = [self._set(first, others) for first, others in self.members.items()]
        inside = {member.row for copies in sets for member in copies.members}
        counts = Counter(doubt for row, doubt in self.doubts.items() if row not in inside)
        return DuplicateSets(
            sets=tuple(sorted(sets, key=lambda copies: (-copies.highest, copies.members[0].row))),
            threshold=pairs.threshold,
            images=len(self.stored),
            alike=len(inside | self.doubts.keys()),
            different=counts["different"],
            unclear=counts["unclear"],
            missing=counts["missing"],
            doubtful=tuple(
                DoubtfulPair((first, row), (self.stored.paths[first], self.stored.paths[row]), cosine, doubt)
                for cosine, first, row, doubt in sorted(self.doubtful, reverse=True)
            ),
            is_complete=pairs.is_complete,
        )

    def _set(self, first: int, others: list[Member]) -> DuplicateSet:
        cosines = [member.cosine for member in others]
        return DuplicateSet((self._member(first, "first", 1.0), *others), min(cosines), max(cosines))

    def _member(self, row: int, match: Match, cosine: float) -> Member:
        stored = self.stored
        return Member(row, int(stored.index[row]), stored.paths[row], stored.label_name(row), match, cosine)


def _cosine(vectors: Tensor, first: int, second: int) -> float:
    a, b = vectors[first].double(), vectors[second].double()
    return min(1.0, float(a @ b / (a.norm() * b.norm()).clamp_min(1e-300)))
