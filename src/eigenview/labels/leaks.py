"""Pictures that two sets share, such as those for training and for testing: sought by vectors, confirmed on pixels.

A picture that was re-encoded, slightly cropped or brightened is still nearest to its original more often than not, but
by no cosine that others would not reach as well. So the nearest few of every picture are compared on the pixels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from eigenview.data import Source
from eigenview.data.crops import same_or_cropped
from eigenview.data.likeness import Thumbnail, thumbnail_of
from eigenview.errors import DataError, EigenviewError
from eigenview.graph.nearest import nearest
from eigenview.graph.principal import projection
from eigenview.names import printable
from eigenview.progress import progress_bar
from eigenview.search.makers import views_apart
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings

TRIED = 3  # nearest of each picture that are compared with it
KEPT_THUMBNAILS = 4096  # 65 kB each at most
DIRECTIONS = 256  # in which the nearest are sought


@dataclass(frozen=True)
class SharedPair:
    """A picture of the second set that is one of the first, too."""

    rows: tuple[int, int]  # in the first set, in the second
    paths: tuple[str, str]
    labels: tuple[str | None, str | None]
    match: Literal["identical", "same"]  # equal pixels or files; or one picture, re-encoded, cropped or brightened
    cosine: float


@dataclass(frozen=True)
class SharedPictures:
    """What two sets share; for each picture of the second at most one of the first."""

    pairs: tuple[SharedPair, ...]
    images: tuple[int, int]
    missing: int  # pictures of the second set that could not be compared, since one was not found
    unclear: int  # that have too little detail to tell

    def lines(self) -> list[str]:
        """For a terminal."""
        share = len(self.pairs) / max(1, self.images[1])
        said = [
            f"{len(self.pairs):,} of {self.images[1]:,} pictures ({share:.1%}) are among the other {self.images[0]:,}, "
            "confirmed on the pixels"
        ]
        said += [f"  {second}  =  {first}" for first, second in (pair.paths for pair in self.pairs[:10])]
        said += [f"  and {len(self.pairs) - 10:,} more"] if len(self.pairs) > 10 else []
        if self.unclear:
            said.append(f"{self.unclear:,} have too little detail to tell")
        if self.missing:
            said.append(f"{self.missing:,} could not be compared, since a picture was not found")
        return said


def shared_pictures(
    first: Embeddings,
    second: Embeddings,
    *,
    sources: tuple[Source | None, Source | None] = (None, None),
    tried: int = TRIED,
) -> SharedPictures:
    """Which pictures of ``second`` are in ``first``: the ``tried`` nearest of each are compared on the pixels.

    Both must be vectors of one encoder, through one view. Pictures are found as on contact sheets, or in ``sources``.
    """
    if first.width != second.width:
        raise DataError(
            f"two sets are compared by vectors of one encoder; those of {printable(first.place)} have {first.width} "
            f"numbers, those of {printable(second.place)} {second.width}"
        )
    a, b = first.about, second.about
    if a is not None and b is not None and (a.encoder, a.layer) != (b.encoder, b.layer):
        raise DataError(
            f"two sets are compared by vectors of one encoder; {printable(first.place)} was made by {a.run}, "
            f"{printable(second.place)} by {b.run}: embed both with one"
        )
    if a is not None and b is not None and (apart := views_apart(a.view, b.view)):
        raise DataError(
            f"two sets are compared through one view; {printable(first.place)} was made at {apart[0]}, "
            f"{printable(second.place)} at {apart[1]}: embed both alike (--size, or the same run)"
        )
    to_rows = projection(first.vectors, directions=DIRECTIONS)
    near = nearest(to_rows(first.vectors), to_rows(second.vectors), k=min(tried, len(first)))
    read = [_reader(stored, source) for stored, source in zip((first, second), sources, strict=True)]
    pairs: list[SharedPair] = []
    missing = unclear = 0
    with progress_bar("comparing pixels", total=len(second)) as advance:
        for row, (rows, cosines) in enumerate(zip(near.index.tolist(), near.similarity.tolist(), strict=True)):
            own, verdicts = read[1](row), set[str]()
            for other, cosine in zip(rows, cosines, strict=True):
                theirs = read[0](other)
                verdict = "missing" if own is None or theirs is None else same_or_cropped(theirs, own).verdict
                if verdict == "identical" or verdict == "same":
                    paths = first.paths[other], second.paths[row]
                    labels = (first.label_name(other), second.label_name(row))
                    pairs.append(SharedPair((other, row), paths, labels, verdict, min(1.0, cosine)))
                    break
                verdicts.add(verdict)
            else:
                missing += "missing" in verdicts
                unclear += "unclear" in verdicts - {"missing"}
            advance(1)
    ordered = sorted(pairs, key=lambda pair: (pair.match != "identical", -pair.cosine))
    return SharedPictures(tuple(ordered), (len(first), len(second)), missing, unclear)


def _reader(stored: Embeddings, source: Source | None) -> Callable[[int], Thumbnail | None]:
    pictures = Pictures(stored, source)

    @lru_cache(KEPT_THUMBNAILS)
    def read(row: int) -> Thumbnail | None:
        try:
            image = pictures.image(row)
            return None if image is None else thumbnail_of(image)
        except (EigenviewError, OSError, IndexError):
            return None

    return read
