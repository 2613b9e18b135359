"""Scores with their intervals, protocol and data, kept as JSON in a run."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import ConfigDict

from eigenview.batches.identity import settings_identity
from eigenview.errors import DataError
from eigenview.files import JSON, as_kind, inside
from eigenview.names import printable
from eigenview.runs.stored import stored_object, write_stored

SEEN = "seen in training"  # of a score's data: the test images were, without their labels unless the method needs them
CALLED = ("set", SEEN)  # what a score's data says beside which images they are


@dataclass(frozen=True)
class Score:
    """One figure and all that it depends on. ``interval`` is at 95 %."""

    __pydantic_config__ = ConfigDict(extra="ignore")

    name: str  # what was measured, such as "knn k=20"
    metric: str  # accuracy, map, nmi, mse, …
    value: float
    interval: tuple[float, float]
    protocol: dict[str, JSON]  # everything that decides how it is measured; not the encoder, not the data
    data: dict[str, JSON]  # identity of what it was fitted to and measured on; "set" is what people call it
    subject: str  # whose features: a run's name, "raw pixels", "untrained"
    encoder: str = ""  # hash of the weights
    seed: int = 0
    higher_is_better: bool = True
    is_share: bool = True  # of 1, which people read in per cent
    items: tuple[float, ...] = ()  # one a test item, in order; empty where the figure is no mean over items
    note: str = ""  # what a reader should know of how it came about, such as a fit that ended early

    @property
    def protocol_hash(self) -> str:
        return settings_identity({"name": self.name, "metric": self.metric, **self.protocol})

    @property
    def data_hash(self) -> str:
        return settings_identity({name: value for name, value in self.data.items() if name not in CALLED})

    @property
    def data_name(self) -> str:
        """What the data set is called; empty where nobody said."""
        return str(self.data.get("set") or "")

    @property
    def was_seen(self) -> bool:
        """Whether the subject was trained on the test images."""
        return self.data.get(SEEN) is True

    def text(self, value: float) -> str:
        """A value of this metric as people read it: a share in per cent, without the sign."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:.3f}"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.subject}: {self.name} {self.metric} {self.value:.4f} [{low:.4f}, {high:.4f}]"


class ScoreFolder:
    """``RUN/evaluation``: a file a score, ``SUBJECT-NAME-METRIC-HASH.json``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, score: Score) -> Path:
        """Whole or not at all, over one of the same measurement."""
        words = re.sub(r"[^a-z0-9.=]+", "-", f"{score.subject} {score.name} {score.metric}".lower()).strip("-")[:150]
        digest = settings_identity({"protocol": score.protocol_hash, "data": score.data_hash})[:8]
        content = {**asdict(score), "protocol_hash": score.protocol_hash, "data_hash": score.data_hash}
        return write_stored(self.folder / f"{words}-{digest}.json", content, indent=None)

    def load(self) -> list[Score]:
        """All scores, in the order of their file names. A file whose hash does not fit its content is refused."""
        if not self.folder.is_dir():
            return []
        return [_read(inside(self.folder, file.name)) for file in sorted(self.folder.glob("[!.]*.json"))]


def _read(file: Path) -> Score:
    _, content = stored_object(file)
    content.setdefault("is_share", content.get("metric") not in ("nmi", "ari", "mse"))  # files from before it was kept
    try:
        score = as_kind(Score, content, file)
    except DataError as error:
        raise DataError(f"{error}; delete it and evaluate again") from None
    if (score.protocol_hash, score.data_hash) != (content.get("protocol_hash"), content.get("data_hash")):
        raise DataError(f"{printable(file)} was changed by hand: its hashes do not fit; delete it and evaluate again")
    return score
