"""Scores as a table and as JSON, for the verbs that print them."""

from collections.abc import Sequence

from eigenview.cli.output import JSON, Output
from eigenview.evaluation.scores import grid
from eigenview.runs import Score


def cell(score: Score | None) -> str:
    if score is None:
        return "–"
    low, high = (score.text(end) for end in score.interval)
    return f"{score.text(score.value)} [{low}, {high}]"


def title(score: Score, *, with_data: bool = False) -> str:
    """What was measured, and on which data set where that must be said."""
    layer = score.protocol.get("layer", "pooled")
    unit = f"{score.metric} %" if score.is_share else score.metric
    data = f" on {score.data_name}" if with_data and score.data_name else ""
    return f"{score.name}, {unit}" + ("" if layer == "pooled" else f" ({layer})") + data


def line_of(score: Score) -> str:
    """A score as it comes."""
    note = f" ({score.note})" if score.note else ""
    return f"{score.subject}: {title(score, with_data=True)}: {cell(score)}{note}"


def show_scores(scores: Sequence[Score], output: Output) -> None:
    """A row for each protocol and data, a column for each subject."""
    subjects, rows = grid(scores)
    firsts = [next(score for score in row if score is not None) for row in rows]
    lines = [[title(first, with_data=True), *map(cell, row)] for first, row in zip(firsts, rows, strict=True)]
    output.table(["with 95 % intervals", *subjects], lines, stacks=True)
    seen = {score.data_name or "this data": 0 for score in scores if score.was_seen}
    if seen:
        output.say(f"the run was trained on test images of {', '.join(seen)}: on images it never saw it may do worse")


def score_as_json(score: Score) -> dict[str, JSON]:
    return {
        "subject": score.subject,
        "name": score.name,
        "metric": score.metric,
        "data": score.data_name,
        "seen_in_training": score.was_seen,
        "layer": str(score.protocol.get("layer", "")),
        "value": score.value,
        "interval": list(score.interval),
        "note": score.note,
        "protocol_hash": score.protocol_hash,
        "data_hash": score.data_hash,
    }
