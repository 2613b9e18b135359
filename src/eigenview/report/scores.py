"""Scores as cards and tables: each against its baselines, or several runs against the first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eigenview.errors import SettingError
from eigenview.evaluation import Compared, compare
from eigenview.evaluation.evaluating import shown_as
from eigenview.evaluation.scores import COMPARED_WITH
from eigenview.nn import POOLED
from eigenview.report.html import Html, element, join, table, table_row
from eigenview.runs import Score
from eigenview.runs.contents import RunContents

CARDS = 4
MINUS = "\N{MINUS SIGN}"
NOTHING = element("td", "\N{EN DASH}")


@dataclass(frozen=True)
class Measure:
    """The run's own score, and the baselines' of the same protocol on the same data."""

    own: Score
    baselines: tuple[Score, ...]

    @property
    def compared(self) -> list[Compared]:
        """How each baseline differs from the run."""
        return compare(self.own, *self.baselines)[1:] if self.baselines else []


def own_scores(run: RunContents) -> list[Score]:
    """One a protocol and data set; those under a former name of the folder count where there are no others."""
    own = [score for score in run.scores if score.subject not in COMPARED_WITH]
    kept: dict[tuple[str, str], Score] = {}
    for score in sorted(own, key=lambda score: score.subject != run.name):
        kept.setdefault((score.protocol_hash, score.data_hash), score)
    return list(kept.values())


def measures(run: RunContents) -> list[Measure]:
    """Every score of a run with its baselines, the most telling first."""
    listed = []
    for own in own_scores(run):
        same = [
            other
            for other in run.scores
            if other.subject in COMPARED_WITH
            and (other.protocol_hash, other.data_hash) == (own.protocol_hash, own.data_hash)
            and len(other.items) == len(own.items)
        ]
        listed.append(Measure(own, tuple(sorted(same, key=lambda score: COMPARED_WITH.index(score.subject)))))
    return sorted(listed, key=lambda measure: rank(measure.own))


def headline(run: RunContents) -> list[Measure]:
    """At most four measures of different kinds, for the top of the page: with baselines where some were measured."""
    chosen: dict[str, Measure] = {}
    for measure in sorted(measures(run), key=lambda measure: not measure.baselines):
        chosen.setdefault(shown_as(set_and_protocol(measure.own)[1]).kind, measure)
    return sorted(chosen.values(), key=lambda measure: rank(measure.own))[:CARDS]


def rank(score: Score) -> tuple[int, int, str]:
    return shown_as(set_and_protocol(score)[1]).order, int(not score.is_share), score.name


def set_and_protocol(score: Score) -> tuple[str, str]:
    """What the data set is called, and what was measured; earlier versions wrote both as "cifar: linear"."""
    before, colon, after = score.name.rpartition(": ")
    return (before, after) if colon else (score.data_name, score.name)


def title(score: Score) -> str:
    """What was measured, in words a newcomer reads."""
    data, protocol = set_and_protocol(score)
    return f"{shown_as(protocol).title} on {data or _unnamed(score)}"


def _unnamed(score: Score) -> str:
    """A data set that nobody named, by the number of its test images."""
    return f"{len(score.items):,} test images" if score.items else "unnamed images"


def described(score: Score) -> Html:
    """The title, then the metric and, beside the usual one, the layer."""
    layer = str(score.protocol.get("layer") or POOLED)
    more = "" if layer == POOLED else f", {layer}"
    return join(title(score), element("span.note", f" {score.metric}{more}"))


def shown(score: Score) -> str:
    unit = "\N{NO-BREAK SPACE}%" if score.is_share else ""
    return f"{score.text(score.value)}{unit}".replace("-", MINUS)


def points(difference: float, score: Score) -> str:
    """A signed difference to ``score``, in points of per cent where that is a share."""
    return f"{'+' if difference >= 0 else MINUS}{score.text(abs(difference))}"


def interval(score: Score) -> str:
    return " to ".join(map(score.text, score.interval)).replace("-", MINUS)


def cards(run: RunContents) -> Html:
    """The headline scores: a large figure, its interval, and bars against the baselines."""
    listed = []
    for measure in headline(run):
        own = measure.own
        rows = [_bar(own, "this run", "own"), *(_bar(score, score.subject, "base") for score in measure.baselines)]
        note = element("p.note", f"{own.metric}, 95\N{NO-BREAK SPACE}% interval {interval(own)}")
        bars, figure = element("div.bars", *rows), element("p.figure", shown(own))
        listed.append(element("article.card.score", element("h3", title(own)), figure, note, bars))
    return element("div.cards", *listed)


def seen_note(run: RunContents) -> Html | None:
    """Which test images the run was trained on; None where it saw none of them."""
    sets = {set_and_protocol(score)[0] or _unnamed(score): 0 for score in own_scores(run) if score.was_seen}
    if not sets:
        return None
    said = f"Seen in training: the test images of {', '.join(sets)}. On images it never saw, the run may do worse."
    return element("p.note", said)


def _bar(score: Score, name: str, kind: str) -> Html:
    top = 1.0 if score.is_share or abs(score.value) <= 1 else abs(score.value) * 1.2
    share = [f"{100 * min(1.0, max(0.0, end / top)):.2f}%" for end in (score.value, *score.interval)]
    track = element(
        "span.track",
        element("span", class_=f"fill {kind}", style=f"width:{share[0]}"),
        element("span.whisker", style=f"left:{share[1]};right:calc(100% - {share[2]})"),
        aria_hidden="true",
    )
    value = element("span.value", shown(score))
    return element("div.bar-row", element("span.name", name), track, value)


def all_scores(run: RunContents) -> Html | None:
    """All scores of one run, each baseline with its difference and how likely chance alone would show it."""
    named = [name for name in COMPARED_WITH if any(score.subject == name for score in run.scores)]
    body = []
    for measure in measures(run):
        rows = {row.score.subject: row for row in measure.compared}
        cells = [_own_cell(measure.own), *(_baseline_cell(rows.get(name)) for name in named)]
        body.append(table_row(described(measure.own), *cells))
    return table(("measure", "this run", *named), body, label="table of scores") if body else None


def _cell(score: Score, *notes: str, is_own: bool = False) -> Html:
    value = shown(score)
    return element("td", element("b", value) if is_own else value, *(element("span.note", note) for note in notes))


def _own_cell(score: Score | None, *notes: str) -> Html:
    """A run's own score with its interval; a dash where it has none."""
    return NOTHING if score is None else _cell(score, interval(score), *notes, is_own=True)


def _baseline_cell(row: Compared | None) -> Html:
    if row is None:
        return NOTHING
    return _cell(row.score, ", ".join(filter(None, (points(row.difference, row.score), row.chance))))


def comparison(runs: Sequence[RunContents]) -> Html | None:
    """Every measure that at least two runs have, the first run as reference; paired significance, item by item."""
    keys: dict[tuple[str, str, str], Score] = {}
    for run in runs:
        for score in own_scores(run):
            keys.setdefault(_kind(score), score)
    rows = []
    for score in sorted(keys.values(), key=rank):
        shared = [_find(run, score) for run in runs]
        if sum(score_or_none is not None for score_or_none in shared) < 2:
            continue
        cells = [_own_cell(shared[0]), *(_against(shared[0], other) for other in shared[1:])]
        rows.append(table_row(described(score), *cells))
    return table(("measure", *(run.name for run in runs)), rows, label="table of scores") if rows else None


def _kind(score: Score) -> tuple[str, str, str]:
    return score.name, score.metric, str(score.protocol.get("layer"))


def _find(run: RunContents, like: Score) -> Score | None:
    same = [score for score in own_scores(run) if _kind(score) == _kind(like)]
    fair = [score for score in same if (score.protocol_hash, score.data_hash) == (like.protocol_hash, like.data_hash)]
    return next(iter([*fair, *same]), None)


def _against(reference: Score | None, other: Score | None) -> Html:
    if other is None or reference is None:
        return _own_cell(other)
    try:
        row = compare(reference, replace(other, subject=other.subject or "run"))[1]
    except SettingError:
        return _cell(other, "other protocol or data: not compared")
    said = points(row.difference, other)
    if row.interval is not None:
        low, high = (points(end, other) for end in row.interval)
        said += f" [{low}, {high}], {row.chance}"
    return _own_cell(other, said)
