"""One encoder on many data sets, and scores of many encoders in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eigenview.data import Source
from eigenview.evaluation.evaluate import evaluate
from eigenview.evaluation.scores import Score
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView


def transfer(
    encoder: Encoder,
    sets: Mapping[str, tuple[Source, Source]],
    *,
    view: CentreView,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    subject: str = "encoder",
    cache: str | Path | None = None,
    seed: int = 0,
) -> list[Score]:
    """The scores of an encoder on every (train, test) of ``sets``; names begin with the set's."""
    scores: list[Score] = []
    for name, (train, test) in sets.items():
        found = evaluate(
            encoder,
            train,
            test,
            view=view,
            protocols=protocols,
            layers=layers,
            subject=subject,
            cache=cache,
            seed=seed,
        )
        scores += [replace(score, name=f"{name}: {score.name}") for score in found]
    return scores


def table(scores: Sequence[Score]) -> str:
    """Markdown: a row for each protocol and layer, a column for each subject, values with their 95 % intervals.

    Scores of one row share protocol and data; a subject without one has a dash.
    """
    subjects = list(dict.fromkeys(score.subject for score in scores))
    rows = list(dict.fromkeys((score.protocol_hash, score.data_hash) for score in scores))
    cells = {(score.protocol_hash, score.data_hash, score.subject): score for score in scores}
    lines = [f"| protocol | {' | '.join(subjects)} |", f"|---|{'---|' * len(subjects)}"]
    for row in rows:
        found = [cells.get((*row, subject)) for subject in subjects]
        first = next(score for score in found if score is not None)
        title = f"{first.name}, {first.metric} ({first.protocol.get('layer', '')})"
        lines.append(f"| {title} | {' | '.join('–' if one is None else _cell(one) for one in found)} |")
    return "\n".join(lines)


def _cell(score: Score) -> str:
    low, high = score.interval
    return f"{score.value:.4f} [{low:.4f}, {high:.4f}]"
