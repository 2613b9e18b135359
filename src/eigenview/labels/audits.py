"""What is doubtful about labelled pictures: wrong labels, odd ones out, copies, and leaks into another set."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from eigenview.data import Source
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError
from eigenview.graph.principal import two_projections
from eigenview.labels.auditing import HEAD_DIRECTIONS, audit_labels
from eigenview.labels.choosing import unjoined
from eigenview.labels.graph import BEARABLE, GraphEngine, ImageGraph, exact_graph_seconds, image_graph, kept_graph
from eigenview.labels.label_files import Column, GivenLabels, write_table
from eigenview.labels.leaks import SharedPictures, shared_pictures
from eigenview.names import printable
from eigenview.search.approximate import Recall
from eigenview.search.candidates import reading_seconds, search_seconds
from eigenview.search.duplicate_sets import DuplicateSets, duplicates
from eigenview.search.neighbour_search import exact_seconds
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings

OUTLIERS = 20  # named unless told otherwise
SHOWN = 10  # suspects in the terminal
LABELLED = 0.5  # share of images from which on kept edges tell as much as a graph of them alone (STL-10, digits)


@dataclass(frozen=True)
class Suspect:
    """A label that is probably wrong."""

    row: int
    name: str
    given: str
    suggested: str
    probability: float  # of what is suggested


@dataclass(frozen=True)
class Outlier:
    """A picture that is like no other."""

    row: int
    name: str
    cosine: float  # mean, with its nearest, around the mean of all


@dataclass(frozen=True)
class Audit:
    """What an audit found. Suspects and outliers are ranked, the worst first."""

    stored: Embeddings
    labels: int  # that were looked at; 0: there are none
    suspects: tuple[Suspect, ...]
    outliers: tuple[Outlier, ...]
    copies: DuplicateSets | None = None  # None: not sought
    leaks: SharedPictures | None = None
    against: Embeddings | None = None  # the other set
    alone: tuple[str, ...] = ()  # classes of a single picture, about whose labels nothing can be said
    given: dict[int, str] = field(default_factory=dict)  # row → label
    recall: Recall | None = None  # of an approximate graph; None: exact

    def __repr__(self) -> str:
        found = f"suspects={len(self.suspects)}, outliers={len(self.outliers)}"
        return f"Audit({self.stored}, labels={self.labels}, {found})"

    def lines(self) -> list[str]:
        """For a terminal."""
        said = []
        if self.labels:
            share = len(self.suspects) / self.labels
            said.append(f"{len(self.suspects):,} of {self.labels:,} labels ({share:.1%}) are probably wrong")
        said += [
            f"  {suspect.name}: {suspect.given}, probably {suspect.suggested} ({suspect.probability:.0%})"
            for suspect in self.suspects[:SHOWN]
        ]
        said += [f"  and {len(self.suspects) - SHOWN:,} more"] if len(self.suspects) > SHOWN else []
        if self.alone:
            said.append(f"nothing can be said about classes of a single picture: {', '.join(self.alone[:SHOWN])}")
        if self.outliers:
            said.append("like no others: " + ", ".join(outlier.name for outlier in self.outliers[:3]))
        if self.copies is not None:
            said += self.copies.lines()
            differing = sum(len({self.given.get(row) for row in rows}) > 1 for rows in self._sets())
            said += [f"{differing:,} sets of copies have different labels"] if differing else []
        return said + ([] if self.leaks is None else self.leaks.lines())

    def columns(self) -> dict[str, Column]:
        """One table for all: kind (label, outlier, copy, leak), name, given, suggested, probability, other, cosine."""
        rows: list[tuple[object, ...]] = [
            ("label", suspect.name, suspect.given, suspect.suggested, suspect.probability, None, None)
            for suspect in self.suspects
        ]
        rows += [
            ("outlier", outlier.name, self.given.get(outlier.row), None, None, None, outlier.cosine)
            for outlier in self.outliers
        ]
        for first, *others in (copied.members for copied in (() if self.copies is None else self.copies.sets)):
            meant = self.given.get(first.row)
            rows += [
                ("copy", member.path, self.given.get(member.row), meant, None, first.path, member.cosine)
                for member in others
            ]
        for pair in () if self.leaks is None else self.leaks.pairs:
            rows.append(("leak", pair.paths[1], pair.labels[1], pair.labels[0], None, pair.paths[0], pair.cosine))
        names = ("kind", "name", "given", "suggested", "probability", "other", "cosine")
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    def write(self, out: str | Path, *, overwrite: bool = False) -> Path:
        return write_table(out, self.columns(), overwrite=overwrite)

    def sheet(self, out: str | Path, *, source: Source | None = None, overwrite: bool = False) -> Path:
        """A PNG of suspects, odd ones out, copies, and pictures that are in both sets."""
        from eigenview.labels.sheets import doubtful_groups, labels_sheet  # which imports this module

        groups, other = doubtful_groups(self), self.against
        return labels_sheet(
            "Doubtful labels", groups, self.stored, out, source=source, other=other, overwrite=overwrite
        )

    def to_json(self) -> str:
        """For scripts."""
        listed = {
            "labels": self.labels,
            "suspects": [asdict(suspect) for suspect in self.suspects],
            "outliers": [asdict(outlier) for outlier in self.outliers],
            "copies": None if self.copies is None else self._sets(),
            "leaks": None if self.leaks is None else [asdict(pair) for pair in self.leaks.pairs],
            "classes_of_one": self.alone,
        }
        return json.dumps(listed, indent=1, ensure_ascii=False, allow_nan=False)

    def _sets(self) -> list[list[int]]:
        return [] if self.copies is None else [[member.row for member in copied.members] for copied in self.copies.sets]


def audit(
    stored: Embeddings,
    given: GivenLabels | None,
    *,
    against: Embeddings | None = None,
    outliers: int = OUTLIERS,
    copies: bool = True,
    sources: tuple[Source | None, Source | None] = (None, None),
    seed: int = 0,
    engine: GraphEngine = "auto",
) -> Audit:
    """The labels ``given`` to the images of ``stored``, doubted; see :func:`eigenview.labels.audit_labels`.

    Without any, odd ones out, copies and leaks are found all the same.
    ``against`` is another set, whose pictures that are in this one are found; ``sources`` are the pictures behind the
    two, where they are not found by their names.
    """
    rows, alone = _audited(given, stored)
    wide, rows_known = two_projections(stored.vectors, directions=HEAD_DIRECTIONS)
    kept = kept_graph(stored, engine=engine, rows_known=rows_known)
    suspects: tuple[Suspect, ...] = ()
    known: dict[int, str] = {}  # row → label
    if given is not None:
        graph = _graph_among(rows, stored, kept.graph)
        suspects = _suspects(graph, wide[rows], stored, given, rows, seed)
        known = {row: given.classes[number] for row, number in enumerate(given.labels.tolist()) if number != NO_LABEL}
    cosine = kept.graph.neighbours.similarity.mean(dim=1)  # with the neighbours that the graph knows
    odd = cosine.argsort(stable=True)[:outliers].tolist()
    return Audit(
        stored,
        labels=len(rows),
        suspects=suspects,
        outliers=tuple(Outlier(row, stored.paths[row], float(cosine[row])) for row in odd),
        copies=duplicates(stored, source=sources[0]) if copies else None,
        leaks=None if against is None else shared_pictures(stored, against, sources=sources),
        against=against,
        alone=alone,
        given=known,
        recall=kept.recall,
    )


def audit_seconds(
    stored: Embeddings,
    given: GivenLabels | None,
    *,
    against: Embeddings | None = None,
    copies: bool = True,
    source: Source | None = None,
) -> float:
    """How long :func:`audit` will take beside the graph that is kept, about."""
    seconds = _seconds_of_own(_audited(given, stored)[0], stored)
    if copies:
        seconds += search_seconds(len(stored), stored.width)
        seconds += reading_seconds(Pictures(stored, source).image, len(stored))
    if against is not None:
        seconds += exact_seconds(stored, len(against))
    return seconds


def _graph_among(rows: Tensor, stored: Embeddings, kept: ImageGraph) -> ImageGraph:
    """The images that have labels: with the edges of the graph that is kept, or with more, found among them alone."""
    if _seconds_of_own(rows, stored):
        return image_graph(stored.vectors[rows])
    return replace(unjoined(kept.rows[rows]), weights=kept.weights[rows.numpy()][:, rows.numpy()])


def _seconds_of_own(rows: Tensor, stored: Embeddings) -> float:
    """How long a search among ``rows`` alone takes; 0: there is none, since kept edges suffice or it is too long."""
    seconds = exact_graph_seconds(len(rows), stored.width)
    return seconds if len(rows) < LABELLED * len(stored) and seconds <= BEARABLE else 0.0


def _audited(given: GivenLabels | None, stored: Embeddings) -> tuple[Tensor, tuple[str, ...]]:
    """The rows whose labels can be doubted, and the classes that have only one."""
    if given is None:
        return torch.empty(0, dtype=torch.long), ()
    sizes = torch.bincount(given.labels[given.labels != NO_LABEL], minlength=len(given.classes))
    is_several = torch.cat([sizes >= 2, torch.tensor([False])])  # the last stands for no label
    rows = is_several[given.labels].nonzero().flatten()
    if int((sizes >= 2).sum()) < 2:
        raise DataError(
            f"an audit needs two classes of at least two pictures each; {printable(stored.place)} has {given}"
        )
    return rows, tuple(name for name, size in zip(given.classes, sizes.tolist(), strict=True) if size == 1)


def _suspects(
    graph: ImageGraph, wide: Tensor, stored: Embeddings, given: GivenLabels, rows: Tensor, seed: int
) -> tuple[Suspect, ...]:
    several, labels = torch.unique(given.labels[rows], return_inverse=True)
    doubts = audit_labels(graph, labels, rows=wide, seed=seed)
    names = [given.classes[int(number)] for number in several]
    return tuple(
        Suspect(
            row=int(rows[place]),
            name=stored.paths[int(rows[place])],
            given=names[int(labels[place])],
            suggested=names[int(doubts.probable[place])],
            probability=float(doubts.probabilities[place, doubts.probable[place]]),
        )
        for place in doubts.ranked.tolist()
    )
