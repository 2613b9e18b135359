"""Scores as cards and tables: each against its baselines, or several runs against the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eigenview.errors import SettingError
from eigenview.evaluation import Compared, compare
from eigenview.evaluation.comparison import BASELINES
from eigenview.nn import POOLED
from eigenview.report.html import Html, element, join
from eigenview.report.run_files import RunFiles
from eigenview.runs import Score

SHARES = ("accuracy", "hungarian accuracy", "map", "precision", "recall")  # shown in per cent
PREFERRED = ("linear", "probe", "knn k=20", "10 labels a class", "kmeans", "1 labels a class", "knn", "retrieval")
CARDS = 4
WORDS = {
    "linear": "Linear probe",
    "kmeans": "k-means clusters",
    "spectral": "Spectral clusters",
    "map": "mean average precision",
}
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Measure:
    """The run's own score, and the baselines' of the same protocol on the same data."""

    own: Score
    baselines: tuple[Score, ...]

    @property
    def rows(self) -> list[Compared]:
        """The run first, then how each baseline differs from it."""
        if not self.baselines:
            return [Compared(self.own, 0.0, None, None)]
        return compare(self.own, *self.baselines)


def measures(run: RunFiles) -> list[Measure]:
    """Every score of a run with its baselines, the most telling first."""
    listed = []
    for own in run.own_scores():
        same = [
            other
            for other in run.scores
            if other.subject in BASELINES
            and (other.protocol_hash, other.data_hash) == (own.protocol_hash, own.data_hash)
            and len(other.items) == len(own.items)
        ]
        listed.append(Measure(own, tuple(sorted(same, key=lambda score: BASELINES.index(score.subject)))))
    return sorted(listed, key=lambda measure: rank(measure.own))


def headline(run: RunFiles) -> list[Measure]:
    """At most four measures of different kinds, for the top of the page: with baselines where some were measured."""
    chosen: dict[str, Measure] = {}
    for measure in sorted(measures(run), key=lambda measure: not measure.baselines):
        _, name = set_and_protocol(measure.own)
        kind = "few" if "labels" in name else name.split(" ")[0]
        chosen.setdefault(kind, measure)
    return sorted(chosen.values(), key=lambda measure: rank(measure.own))[:CARDS]


def rank(score: Score) -> tuple[int, int, str]:
    _, protocol = set_and_protocol(score)
    place = next((at for at, name in enumerate(PREFERRED) if protocol.startswith(name)), len(PREFERRED))
    return place, int(score.metric not in SHARES), score.name


def set_and_protocol(score: Score) -> tuple[str, str]:
    """What the data set is called, and what was measured; earlier versions wrote both as "cifar: linear"."""
    before, colon, after = score.name.rpartition(": ")
    return (before, after) if colon else (score.data_name, score.name)


def title(score: Score) -> str:
    """What was measured, in words a newcomer reads."""
    data, protocol = set_and_protocol(score)
    name, _, setting = protocol.partition(" k=")
    if name == "knn":
        said = f"{setting} nearest neighbour" + ("s" if setting != "1" else "")
    elif "labels a class" in protocol:
        said = protocol.replace("1 labels", "1 label") if protocol.startswith("1 ") else protocol
    else:
        said = WORDS.get(name, name[:1].upper() + name[1:])
    return f"{said} on {data or _unnamed(score)}"


def _unnamed(score: Score) -> str:
    """A data set that nobody named, by the number of its test images."""
    return f"{len(score.items):,} test images" if score.items else "unnamed images"


def described(score: Score) -> Html:
    """The title, then the metric and, beside the usual one, the layer."""
    layer = str(score.protocol.get("layer") or POOLED)
    more = "" if layer == POOLED else f", {layer}"
    return join(title(score), element("span", f" {score.metric}{more}", class_="note"))


def shown(value: float, metric: str) -> str:
    if is_share(metric):
        return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"
    return f"{value:.3f}".replace("-", MINUS)


def is_share(metric: str) -> bool:
    return metric.split("@")[0] in SHARES


def points(difference: float, metric: str) -> str:
    """A signed difference, in points of per cent where the value is one."""
    value = 100 * difference if is_share(metric) else difference
    return f"{'+' if value >= 0 else MINUS}{abs(value):.{1 if is_share(metric) else 3}f}"


def interval(score: Score) -> str:
    low, high = (100 * end if is_share(score.metric) else end for end in score.interval)
    digits = 1 if is_share(score.metric) else 3
    return f"{low:.{digits}f} to {high:.{digits}f}".replace("-", MINUS)


def p_value(value: float | None) -> str:
    if value is None:
        return ""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def cards(run: RunFiles) -> Html:
    """The headline scores: a large figure, its interval, and bars against the baselines."""
    return element("div", *(_card(measure) for measure in headline(run)), class_="cards")


def seen_note(run: RunFiles) -> Html | None:
    """Which test images the run was trained on; None where it saw none of them."""
    sets = {set_and_protocol(score)[0] or _unnamed(score): 0 for score in run.own_scores() if score.was_seen}
    if not sets:
        return None
    said = f"Seen in training: the test images of {', '.join(sets)}. On images it never saw, the run may do worse."
    return element("p", said, class_="note")


def _card(measure: Measure) -> Html:
    own = measure.own
    rows = [_bar(own, "this run", "own"), *(_bar(score, score.subject, "base") for score in measure.baselines)]
    return element(
        "article",
        element("h3", title(own)),
        element("p", shown(own.value, own.metric), class_="figure"),
        element("p", f"{own.metric}, 95\N{NO-BREAK SPACE}% interval {interval(own)}", class_="note"),
        element("div", *rows, class_="bars"),
        class_="card score",
    )


def _bar(score: Score, name: str, kind: str) -> Html:
    top = 1.0 if is_share(score.metric) or abs(score.value) <= 1 else abs(score.value) * 1.2
    share = [f"{100 * min(1.0, max(0.0, end / top)):.2f}%" for end in (score.value, *score.interval)]
    track = element(
        "span",
        element("span", class_=f"fill {kind}", style=f"width:{share[0]}"),
        element("span", class_="whisker", style=f"left:{share[1]};right:calc(100% - {share[2]})"),
        class_="track",
        aria_hidden="true",
    )
    value = element("span", shown(score.value, score.metric), class_="value")
    return element("div", element("span", name, class_="name"), track, value, class_="bar-row")


def table(run: RunFiles) -> Html | None:
    """All scores of one run, each baseline with its difference and how likely chance alone would show it."""
    listed = measures(run)
    if not listed:
        return None
    named = [name for name in BASELINES if any(score.subject == name for score in run.scores)]
    head = element("tr", *(element("th", name, scope="col") for name in ("measure", "this run", *named)))
    body = []
    for measure in listed:
        rows = {row.score.subject: row for row in measure.rows[1:]}
        cells = [_own_cell(measure.own), *(_cell(rows.get(name)) for name in named)]
        body.append(element("tr", element("th", described(measure.own), scope="row"), *cells))
    return _wrapped(head, body)


def _own_cell(score: Score) -> Html:
    return element(
        "td", element("b", shown(score.value, score.metric)), element("span", interval(score), class_="note")
    )


def _cell(row: Compared | None) -> Html:
    if row is None:
        return element("td", "\N{EN DASH}")
    gap = points(row.difference, row.score.metric)
    said = ", ".join(part for part in (gap, p_value(row.p_value)) if part)
    return element("td", shown(row.score.value, row.score.metric), element("span", said, class_="note"))


def comparison(runs: Sequence[RunFiles]) -> Html | None:
    """Every measure that at least two runs have, the first run as reference; paired significance, item by item."""
    keys: dict[tuple[str, str, str], Score] = {}
    for run in runs:
        for score in run.own_scores():
            keys.setdefault(_kind(score), score)
    rows = []
    for score in sorted(keys.values(), key=rank):
        shared = [_find(run, score) for run in runs]
        if sum(score_or_none is not None for score_or_none in shared) < 2:
            continue
        reference = shared[0]
        cells = [_own_cell(reference) if reference else element("td", "\N{EN DASH}")]
        cells += [_against(reference, other) for other in shared[1:]]
        rows.append(element("tr", element("th", described(score), scope="row"), *cells))
    if not rows:
        return None
    names = [element("th", name, scope="col") for name in ("measure", *(run.name for run in runs))]
    return _wrapped(element("tr", *names), rows)


def _kind(score: Score) -> tuple[str, str, str]:
    return score.name, score.metric, str(score.protocol.get("layer"))


def _find(run: RunFiles, like: Score) -> Score | None:
    same = [score for score in run.own_scores() if _kind(score) == _kind(like)]
    fair = [score for score in same if (score.protocol_hash, score.data_hash) == (like.protocol_hash, like.data_hash)]
    return next(iter([*fair, *same]), None)


def _against(reference: Score | None, other: Score | None) -> Html:
    if other is None:
        return element("td", "\N{EN DASH}")
    if reference is None:
        return _own_cell(other)
    try:
        row = compare(reference, replace(other, subject=other.subject or "run"))[1]
    except SettingError:
        return element(
            "td",
            shown(other.value, other.metric),
            element("span", "other protocol or data: not compared", class_="note"),
        )
    if row.interval is None:
        said = points(row.difference, other.metric)
    else:
        low, high = (points(end, other.metric) for end in row.interval)
        said = f"{points(row.difference, other.metric)} [{low}, {high}], {p_value(row.p_value)}"
    return element(
        "td",
        element("b", shown(other.value, other.metric)),
        element("span", interval(other), class_="note"),
        element("span", said, class_="note"),
    )


def _wrapped(head: Html, body: Sequence[Html]) -> Html:
    """A table that scrolls inside its own box, so that a phone's page does not."""
    inner = element("table", element("thead", head), element("tbody", *body), class_="scores")
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label="table of scores")
