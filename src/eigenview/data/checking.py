"""What is in a source: every image opened, decoded and compared, the findings in a few lines."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from eigenview.data.decode import UnreadableImage
from eigenview.data.failures import Failure
from eigenview.data.source import Item, Share, Source, SourceInfo, StreamSource
from eigenview.data.spec import open_source
from eigenview.data.workers import Made, results, start_workers, worker_count
from eigenview.names import counted
from eigenview.progress import progress_bar

CHUNK = 64  # items examined between two reports of a worker
NAMED_IN_REPORT = 5


@dataclass(frozen=True)
class Facts:
    """What one readable item turned out to be."""

    name: str
    size: tuple[int, int]
    mode: str
    digest: bytes
    label: int | None
    captions: int


@dataclass(frozen=True)
class CheckReport:
    """``sizes`` counts (width, height), ``modes`` how files store their pixels, ``labels`` items per class.

    ``duplicates`` holds groups of names with the same content. ``captions`` counts items by their number of captions.
    """

    info: SourceInfo
    readable: int
    sizes: Counter[tuple[int, int]]
    modes: Counter[str]
    labels: Counter[str]
    captions: Counter[int]
    unreadable: tuple[Failure, ...]
    duplicates: tuple[tuple[str, ...], ...]
    unreadable_folders: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.readable + len(self.unreadable)

    def __str__(self) -> str:
        lines = [
            f"{self.info.kind} {self.info.place}",
            f"images      {self.total:,}, of which {self.readable:,} readable",
        ]
        if self.sizes:
            lines.append(f"sizes       {_sizes(self.sizes)}")
            lines.append(f"stored as   {_most_common(self.modes)}")
        lines.append(f"labels      {_labels(self.labels, self.readable)}")
        if self.info.labels_hint:
            lines.append(f"            {self.info.labels_hint}")
        lines.append(f"captions    {_captions(self.captions)}")
        failures = [f"{failure.name} ({failure.reason})" for failure in self.unreadable]
        lines.append(f"unreadable  {f'{len(failures):,}: {_few(failures)}' if failures else 'none'}")
        if self.unreadable_folders:
            lines.append(f"no entry    {len(self.unreadable_folders):,} folders: {_few(self.unreadable_folders)}")
        lines.append(f"duplicates  {_duplicates(self.duplicates)}")
        return "\n".join(lines)


def check(
    source: Source | StreamSource | str | Path, *, workers: int | str = "auto", shows_progress: bool = True
) -> CheckReport:
    """Open and decode every item of ``source`` (or of the source that a path or text describes), and report."""
    opened = open_source(source) if isinstance(source, (str, Path)) else source
    info = opened.describe()
    facts: list[Facts] = []
    failures: list[Failure] = []
    with progress_bar("checking", total=info.count, shown=shows_progress) as advance:
        for chunk in _examined(opened, worker_count(workers)):
            facts.extend(finding for finding in chunk if isinstance(finding, Facts))
            failures.extend(finding for finding in chunk if isinstance(finding, Failure))
            advance(len(chunk))
    same: dict[bytes, list[str]] = {}
    for item in facts:
        same.setdefault(item.digest, []).append(item.name)
    names = info.classes
    return CheckReport(
        info=info,
        readable=len(facts),
        sizes=Counter(item.size for item in facts),
        modes=Counter(item.mode for item in facts),
        labels=Counter(names[item.label] if names else str(item.label) for item in facts if item.label is not None),
        captions=Counter(item.captions for item in facts),
        unreadable=tuple(failures),
        duplicates=tuple(tuple(group) for group in same.values() if len(group) > 1),
        unreadable_folders=tuple(getattr(opened, "unreadable_folders", ())),
    )


Findings = list[Facts | Failure]


def _examined(source: Source | StreamSource, workers: int) -> Iterator[Findings]:
    if isinstance(source, Source):
        chunks = range(-(-len(source) // CHUNK))
        examine = partial(_examine, source)
        if workers and len(chunks) > 1:
            return results(start_workers(Made(examine), workers, requests=chunks, persistent=False))
        return map(examine, chunks)
    return ([_finding(item)] for item in source.items(Share(0, 0), shuffle=False))


def _examine(source: Source, chunk: int) -> Findings:
    """Chunk k of a source: items k·64 … k·64 + 63."""
    last = min((chunk + 1) * CHUNK, len(source))
    return [_finding(_item(source, index)) for index in range(chunk * CHUNK, last)]


def _item(source: Source, index: int) -> Item | Exception:
    try:
        return Item(index, source.image(index), source.label(index), source.captions(index))
    except UnreadableImage as error:
        return error


def _finding(item: Item | Exception) -> Facts | Failure:
    try:
        if isinstance(item, Exception):
            raise item
        image = item.image
        image.pixels()  # the only way to know that it can be decoded
        return Facts(image.name, image.size, image.mode, image.digest(), item.label, len(item.captions))
    except UnreadableImage as error:
        return Failure(error.name, error.reason)


def _sizes(sizes: Counter[tuple[int, int]]) -> str:
    if len(sizes) <= 3:
        return _most_common(Counter({f"{width} x {height}": count for (width, height), count in sizes.items()}))
    shortest, longest = min(map(min, sizes)), max(map(max, sizes))
    (width, height), count = sizes.most_common(1)[0]
    return f"{len(sizes):,} sizes, sides from {shortest} to {longest}; most often {width} x {height} ({count:,})"


def _most_common(counts: Counter[str], most: int = 6) -> str:
    listed = [f"{name} ({count:,})" for name, count in counts.most_common(most)]
    return ", ".join(listed) + (f" and {len(counts) - most} more" if len(counts) > most else "")


def _labels(labels: Counter[str], readable: int) -> str:
    if not labels:
        return "none"
    fewest, most, without = min(labels.values()), max(labels.values()), readable - sum(labels.values())
    each = f"{counted(most, 'image')} each" if fewest == most else f"{fewest:,} to {most:,} images each"
    classes = "1 class" if len(labels) == 1 else f"{len(labels)} classes"
    return f"{classes}, {each}" + (f"; {without:,} images without" if without else "")


def _captions(captions: Counter[int]) -> str:
    if not any(captions):
        return "none"
    total = sum(number * count for number, count in captions.items())
    fewest, most = min(captions), max(captions)
    return f"{total:,}, {fewest} an image" if fewest == most else f"{total:,}, {fewest} to {most} an image"


def _duplicates(groups: tuple[tuple[str, ...], ...]) -> str:
    if not groups:
        return "none"
    extra = sum(len(group) - 1 for group in groups)
    repeats = "image repeats another" if extra == 1 else "images repeat others"
    return f"{extra:,} {repeats}: {_few([' = '.join(group[:3]) for group in groups])}"


def _few(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED_IN_REPORT:,} more" if len(names) > NAMED_IN_REPORT else ""
    return ", ".join(names[:NAMED_IN_REPORT]) + more
