"""The sections of the page, each with a sentence on how to read it, and what to do where something is missing."""

from collections.abc import Sequence
from dataclasses import dataclass

from eigenview.report import facts, galleries, scores, summary
from eigenview.report.html import Child, Html, asset, element, join
from eigenview.report.structure import Structure
from eigenview.runs import number
from eigenview.runs.config import LENGTHS
from eigenview.runs.contents import RunContents

NO_SAMPLE = "No sample of images yet: eigenview train writes one at its end, eigenview diagnose RUN at any time."
NO_SCORES = "No scores yet: eigenview evaluate RUN SOURCE measures them, with the baselines."

CHARTS = {  # id: heading, how to read it
    "loss": ("Loss", "falls below the dashed line, which is chance: all embeddings alike"),
    "alignment": ("Alignment", "distance between two views of an image; lower is closer"),
    "uniformity": ("Uniformity", "how evenly embeddings cover the sphere; lower is more even"),
    "effective_rank": ("Effective rank", "directions in use; near 1 means collapse"),
    "knn_accuracy": ("Online kNN", "neighbours vote on held-out labels while training"),
    "learning_rate": ("Learning rate", "what the schedule gave"),
}


@dataclass(frozen=True)
class Section:
    name: str  # of its anchor
    short: str  # in the contents; empty: not listed
    html: Html


def section(name: str, short: str, heading: str, lead: str, *content: Child) -> Section:
    inner = [element("h2", heading, id=f"{name}-heading"), element("p.lead", lead) if lead else None, *content]
    return Section(name, short, element("section", *inner, id=name, aria_labelledby=f"{name}-heading"))


def of_one(run: RunContents, structure: Structure | None) -> list[Section]:
    """Everything about one run; of an encoder that was not trained here, the images come first."""
    shown = _of_sample(run, structure)
    for kept in run.labels:  # what spread and audit left in the run
        short, heading, lead = galleries.HEADINGS[kept.kind]
        shown.append(section(f"labels-{kept.kind}", short, heading, lead, galleries.labels_content(kept)))
    judged = [_diagnosis(run), *([_curves([run])] if run.is_trained else []), _geometry([run], structure)]
    lead = "Everything that decides what the run computed, and what it cost."
    settings = section("settings", "Settings", "Settings, environment, time", lead, facts.blocks(run))
    return [_top(run), *(judged + shown if run.is_trained else shown + judged), settings]


def _of_sample(run: RunContents, structure: Structure | None) -> list[Section]:
    sample = run.sample
    if sample is None or structure is None:
        return [section("map", "Map", "Map of the embedding", "", element("p.quiet", NO_SAMPLE))]
    lead = "Each dot is an image; close dots look alike to the encoder. Point to see it, click for more."
    parts = [section("map", "Map", "Map of the embedding", lead, _map(structure))]
    lead = "An image, then those the encoder finds most similar. A struck corner marks another class."
    grid = galleries.neighbour_grid(sample, structure)
    parts.append(section("neighbours", "Neighbours", "Nearest neighbours", lead, grid))
    word = "Clusters" if sample.prototypes is None else "Prototypes"
    lead = "Groups found without labels, each shown by its most central images."
    parts += [section("clusters", word, word, lead, galleries.cluster_gallery(sample)), _copies(run, structure)]
    if sample.words is not None:
        lead = "A caption, its own image, then the images that its words find; its own is framed where it is found. "
        lead += "Pairs that were learnt from are found more easily: evaluate --protocol captions measures others."
        shown = galleries.words_examples(sample.words, sample)
        parts.append(section("words", "Words", "Words that find images", lead, shown))
    if sample.outliers:
        lead = "Images like no others here, the most isolated first: rarities, mistakes, or what does not belong."
        parts.append(section("outliers", "Outliers", "Odd ones out", lead, galleries.outlier_gallery(sample)))
    if run.is_trained:
        lead = "Training calls these the same image: whatever the views change, the encoder learns to ignore."
        parts.append(section("views", "Views", "What the views look like", lead, galleries.view_table(sample)))
    if structure.confusion is not None:
        parts.append(_confusion(structure))
    return parts


def _copies(run: RunContents, structure: Structure) -> Section:
    sample = run.sample
    assert sample is not None
    if sample.copies:
        lead = "Copies of one picture, each compared with the first on the pixels and confirmed."
        copies = galleries.alike(sample, [(members, "") for members in sample.copies], "sets")
        return section("duplicates", "Duplicates", "Copies", lead, copies)
    if not run.is_trained:
        nothing = element("p.quiet", "No picture is here twice, as far as pixels tell.")
        return section("duplicates", "Duplicates", "Copies", "", nothing)
    lead = "Pairs far closer than their surroundings. Across a train and a test set they inflate every score."
    pairs = galleries.duplicate_pairs(sample, structure)
    return section("duplicates", "Duplicates", "Near-duplicates", lead, pairs)


def of_several(runs: Sequence[RunContents]) -> list[Section]:
    """A comparison: the first run is the reference."""
    listed = []
    for number_, run in enumerate(runs):
        state, word, sentence = summary.summarise(run)
        badge = element("span", word, class_=f"badge {state}")
        name = element("h3", element("span", class_=f"series series{number_ % 8}", aria_hidden="true"), run.name)
        listed.append(element("article.card", name, badge, element("p", sentence), _line(run)))
    names = " \N{MIDDLE DOT} ".join(run.name for run in runs)
    heading, lead = element("h1", f"{len(runs)} runs compared"), element("p.lead", names)
    inner = element("section", heading, lead, element("div.gallery.wide", *listed), id="top")
    table = scores.comparison(runs) or element("p.quiet", f"No measure that two of the runs share. {NO_SCORES}")
    against = (
        f"Against {runs[0].name}: the difference, its 95 % interval, and how likely chance alone would show as much, "
        "paired item by item (McNemar's exact test, or a paired t-test)."
    )
    costs = [join(element("h3", run.name), facts.facts_list(facts.time_figures(run))) for run in runs]
    return [
        Section("top", "Verdicts", inner),
        section("scores", "Scores", "Scores", against, table),
        _curves(runs),
        _geometry(runs, None),
        section("settings", "Settings", "Settings that differ", "", facts.differing(runs), *costs),
    ]


def _top(run: RunContents) -> Section:
    state, badge, sentence = summary.summarise(run)
    heading = element("h1", run.name)
    verdict = element("p.verdict", element("span", badge, class_=f"badge {state}"), " ", sentence, id="verdict")
    measured = scores.cards(run) if scores.own_scores(run) else element("p.quiet", NO_SCORES)
    table = scores.all_scores(run)
    more = None
    if table is not None:
        note = element("p.note", "p: how likely chance alone would show such a difference, paired item by item.")
        more = element("details", element("summary", "All scores, with intervals and significance"), table, note)
    wrong = element("ul.quiet", *(element("li", problem) for problem in run.problems)) if run.problems else None
    inner = element("section", heading, _line(run), verdict, wrong, measured, scores.seen_note(run), more, id="top")
    return Section("top", "Verdict", inner)


def _line(run: RunContents) -> Html:
    """Method, encoder, data and time in one line."""
    config, place = run.config, run.data.source.place if run.data is not None else ""
    said = [] if run.is_trained else ["not trained here"]
    if config is not None:
        lengths = {name: getattr(config, name) for name in LENGTHS}
        said += [config.method, f"{config.encoder.name} encoder", place or config.source]
        said += [f"{length} {name}" for name, length in lengths.items() if length is not None]
    elif run.encoder is not None:
        said += [f"{run.encoder.settings.name} encoder", place]
    seconds = number(run.metrics.last.get("seconds"))
    if seconds is not None:
        said.append(facts.duration(seconds))
    return element("p.line", *(element("span", word) for word in said if word))


def _diagnosis(run: RunContents) -> Section:
    if run.diagnosis is None:
        missing = element("p.quiet", "Not diagnosed yet: eigenview diagnose RUN says what is wrong, and what to try.")
        return section("diagnosis", "Diagnosis", "Diagnosis", "", missing)
    findings = summary.findings(run)
    nothing = None if findings else element("p.quiet", "Nothing wrong was found: no collapse, views agree, no hubs.")
    figures = element("details", element("summary", "All figures"), facts.facts_list(run.diagnosis.table()))
    lead = "What the geometry says, without labels."
    return section("diagnosis", "Diagnosis", "Diagnosis", lead, findings, nothing, figures)


def chart(name: str, heading: str, note: str, *, size: str = "") -> Html:
    caption = element("figcaption", element("h3", heading), element("p.note", note))
    plot = element("div.plot", id=f"plot-{name}", role="img", aria_label=f"chart: {heading}, {note}")
    return element("figure", caption, plot, class_=f"chart {size}".strip())


def _curves(runs: Sequence[RunContents]) -> Section:
    drawn = [chart(name, *said) for name, said in CHARTS.items() if any(run.metrics.series(name) for run in runs)]
    if not drawn:
        nothing = element("p.quiet", "No step was logged: metrics.jsonl is missing or empty.")
        return section("curves", "Training", "Training", "", nothing)
    alarms = [
        element("li", f"{run.name}: {message}" if len(runs) > 1 else message)
        for run in runs
        for _, message in run.metrics.alarms
    ]
    warned = None
    if alarms:
        shown = element("ul", *alarms[:10])
        warned = element("div.alarms", element("h3", f"{len(alarms)} alarm{'s' if len(alarms) > 1 else ''}"), shown)
    lead = "Over optimizer steps. Drag to zoom, double-click to go back."
    return section("curves", "Training", "Training", lead, warned, element("div.multiples", *drawn))


def _geometry(runs: Sequence[RunContents], structure: Structure | None) -> Section:
    charts = []
    if any(run.metrics.series("uniformity", over="alignment") for run in runs):
        note = "good runs go to the lower left: views close, images apart"
        charts.append(chart("plane", "Alignment and uniformity", note, size="tall"))
    if any(run.sample is not None or run.diagnosis is not None for run in runs):
        note = "a slow fall uses many directions; a cliff is collapse"
        charts.append(chart("spectrum", "Singular values", note, size="tall"))
        count = "" if structure is None or structure.laplacian is None else f" Groups: {structure.laplacian}."
        note = f"of the graph of nearest neighbours; groups set apart leave a jump after as many values.{count}"
        charts.append(chart("laplacian", "Laplacian spectrum", note, size="tall"))
    body = element("div.multiples", *charts) if charts else element("p.quiet", NO_SAMPLE)
    return section("geometry", "Geometry", "Geometry", "The shape of the embedding on its sphere.", body)


def _map(structure: Structure) -> Html:
    """The map's controls and an empty canvas, which the script fills."""
    choices = []
    for place, projection in enumerate(structure.projections):
        radio = element("input", type="radio", name="projection", value=place, checked=place == 0)
        choices.append(element("label", radio, element("span", projection.name)))
    return Html(asset("map.html").replace("{projections}", join(*choices)))


def _confusion(structure: Structure) -> Section:
    assert structure.confusion is not None
    said = (
        f"A logistic regression on {structure.confusion.items:,} sampled images, each predicted by a classifier that "
        f"had not seen it: {structure.confusion.accuracy:.1%} right. Rows are the true class."
    )
    plot = element("div.plot", id="plot-confusion", role="img", aria_label="confusion matrix of the probe")
    return section("confusion", "Confusion", "What the probe confuses", said, element("figure.chart.confusion", plot))
