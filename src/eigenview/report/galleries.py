"""Sections made of thumbnails: neighbours, clusters, near-duplicates, views. All come from a few sheets."""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eigenview.errors import DataError
from eigenview.report.html import Html, element, join
from eigenview.report.structure import Structure, class_name
from eigenview.runs import Sample, Sheets, Words
from eigenview.runs.contents import Kind, ShownLabels, ShownPicture

QUERIES, SHOWN_NEIGHBOURS = 6, 8
SHOWN_CLUSTERS, SHOWN_MEMBERS, SHOWN_PAIRS, SHOWN_OUTLIERS = 20, 12, 12, 24
HEADINGS: dict[Kind, tuple[str, str, str]] = {  # short, heading, how to read it
    "suggested": (
        "Suggested labels",
        "Suggested labels",
        "Of each class the surest images, then the least sure, with the probability of the label.",
    ),
    "suspicious": (
        "Suspicious labels",
        "Suspicious labels",
        "Labels that disagree with their image's neighbourhood, with what they probably are and how probable that is.",
    ),
    "outliers": (
        "Outliers of the audit",
        "Odd ones out, by the audit",
        "Of all images, labelled or not, those that are like no others: rarities, mistakes, or what does not belong.",
    ),
}


def sheet_styles(sample: Sample) -> str:
    """A CSS class for each sheet; the scripts use the same ones."""
    sheets, rules = sample.thumbnails, []
    rules.append(f".thumb{{--columns:{sheets.columns};--rows:{sheets.rows}}}")
    if sheets.side < 48:
        rules.append(".thumb{image-rendering:pixelated}")
    for number, file in enumerate(sheets.files):
        rules.append(f".sheet{number}{{background-image:url({_data_address(sheets, number)})}}")
        assert file.suffix == ".jpg"
    if sample.views is not None:
        columns, rows = sample.views.columns, sample.views.rows
        rules.append(
            f".view{{--columns:{columns};--rows:{rows};background-image:url({_data_address(sample.views, 0)})}}"
        )
    return "\n".join(rules)


def _data_address(sheets: Sheets, number: int) -> str:
    file = sheets.files[number]
    try:
        content = base64.b64encode(file.read_bytes()).decode()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}; write the sample again") from None
    kind = "png" if file.suffix == ".png" else "jpeg"
    return f"data:image/{kind};base64,{content}"


def thumb(sample: Sample, row: int, *, mark: str = "") -> Html:
    """The thumbnail of a row of the sample, named for whoever cannot see it; ``mark`` is a further class."""
    sheets = sample.thumbnails
    sheet, place = divmod(row, sheets.columns * sheets.rows)
    column, line = place % sheets.columns, place // sheets.columns
    label = "" if sample.labels is None else f", {class_name(sample, int(sample.labels[row]))}"
    said = f"{sample.names[row]}{label}"
    return element(
        "span",
        class_=f"thumb sheet{sheet} {mark}".strip(),
        style=f"--column:{column};--row:{line}",
        role="img",
        aria_label=said,
        title=said,
    )


def neighbour_grid(sample: Sample, structure: Structure) -> Html:
    """Random queries, and the worst: neighbours mostly of other classes, or, without labels, the most isolated."""
    count = len(sample.names)
    drawn = np.random.default_rng(sample.seed).permutation(count)[:QUERIES]
    worst = worst_queries(sample, structure)[:QUERIES]
    labelled = sample.labels is not None
    rule = "most neighbours of another class" if labelled else "farthest from their nearest neighbour"
    return element(
        "div.pair",
        _queries(f"{len(drawn)} at random", sample, structure, drawn),
        _queries(f"The {len(worst)} worst: {rule}", sample, structure, worst),
    )


def worst_queries(sample: Sample, structure: Structure) -> NDArray[np.int64]:
    """Rows, the worst first. Among equals the more similar the wrong neighbours, the worse."""
    if sample.labels is None:
        return np.argsort(structure.cosines[:, 0], kind="stable")
    own = sample.labels >= 0
    agree = (sample.labels[structure.neighbours] == sample.labels[:, None]).mean(axis=1)
    order = np.lexsort((-structure.cosines.mean(axis=1), agree))
    return order[own[order]]


def _queries(heading: str, sample: Sample, structure: Structure, rows: Sequence[int] | NDArray[np.int64]) -> Html:
    lines = []
    for row in rows:
        near = structure.neighbours[row][:SHOWN_NEIGHBOURS]
        marks = ["" if sample.labels is None or sample.labels[n] == sample.labels[row] else "other" for n in near]
        pictures = [thumb(sample, int(n), mark=mark) for n, mark in zip(near, marks, strict=True)]
        name = "" if sample.labels is None else class_name(sample, int(sample.labels[row]))
        cosine = f"cosine {structure.cosines[row][0]:.2f}"
        said = element("span.caption", element("b", name) if name else None, element("span", cosine))
        lines.append(element("li", thumb(sample, int(row), mark="query"), said, element("span.strip", *pictures)))
    return element("div", element("h3", heading), element("ul.queries", *lines))


def words_examples(words: Words, sample: Sample) -> Html:
    """Captions, each with its own image framed and the images that it finds; then images with captions they find."""
    lines, back = [], []
    for example in words.examples:
        pictures = [thumb(sample, row, mark="query" if row == example.own else "") for row in example.rows]
        said = element("span.caption", element("b", example.text), element("span", f"cosine {example.cosines[0]:.2f}"))
        lines.append(element("li", thumb(sample, example.own, mark="query"), said, element("span.strip", *pictures)))
    for answer in words.answers:
        texts = [
            element("p.caption", element("b", text), element("span", f"cosine {cosine:.2f}"))
            for text, cosine in zip(answer.texts, answer.cosines, strict=True)
        ]
        note = element("span.note", "its own is among them" if answer.finds_own else "its own is not among them")
        back.append(element("li", thumb(sample, answer.row, mark="query"), note, element("div", *texts)))
    shown = element("ul.queries", *lines)
    if not back:
        return shown
    return join(shown, element("h3", "Images that find words"), element("ul.queries", *back))


def cluster_gallery(sample: Sample) -> Html:
    """The largest clusters, or the prototypes most used, each by its most central members."""
    assignment = sample.clusters if sample.prototypes is None else sample.prototypes
    word = "cluster" if sample.prototypes is None else "prototype"
    numbers, counts = np.unique(assignment, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:SHOWN_CLUSTERS]
    unit = sample.features / np.maximum(np.linalg.norm(sample.features, axis=1, keepdims=True), 1e-12)
    cards = []
    for place in order:
        members = np.flatnonzero(assignment == numbers[place])
        centre = unit[members].mean(axis=0)
        central = members[np.argsort(-(unit[members] @ centre), kind="stable")][:SHOWN_MEMBERS]
        number = int(numbers[place]) + (1 if word == "cluster" else 0)
        heading = join(f"{word.capitalize()} {number} ", element("span.note", f"{counts[place]:,} images"))
        pictures = element("span.strip", *(thumb(sample, int(row)) for row in central))
        mixture = None
        if sample.labels is not None:  # the three most frequent classes
            labels, shares = np.unique(sample.labels[members], return_counts=True)
            top = np.argsort(-shares, kind="stable")[:3]
            said = ", ".join(f"{class_name(sample, int(labels[k]))} ({shares[k] / len(members):.0%})" for k in top)
            mixture = element("p.note", said)
        cards.append(element("article.card", element("h3", heading), mixture, pictures))
    left = len(numbers) - len(order)
    more = element("p.note", f"{left} smaller ones are not shown.") if left > 0 else None
    return join(element("div.gallery", *cards), more)


def duplicate_pairs(sample: Sample, structure: Structure) -> Html:
    if not structure.duplicates:
        return element("p.quiet", f"None among the {len(sample.names):,} sampled images.")
    listed = [((first, second), f"cosine {cosine:.4f}") for first, second, cosine in structure.duplicates]
    return alike(sample, listed, "pairs")


def alike(sample: Sample, listed: Sequence[tuple[Sequence[int], str]], word: str) -> Html:
    """Rows that look alike side by side, with their names and perhaps a remark; the first few."""
    cards = []
    for rows, remark in listed[:SHOWN_PAIRS]:
        names = element("span.names", " · ".join(sample.names[row] for row in rows))
        said = element("span.caption", names, element("span", remark) if remark else None)
        cards.append(element("li", *(thumb(sample, row) for row in rows), said))
    more = len(listed) - len(cards)
    note = element("p.note", f"and {more:,} more {word}.") if more > 0 else None
    return join(element("ul.duplicates", *cards), note)


def outlier_gallery(sample: Sample) -> Html:
    """The images that are like no others, the most isolated first."""
    pictures = []
    for row in sample.outliers[:SHOWN_OUTLIERS]:
        name = element("span.names", "/".join(sample.names[row].split("/")[-2:]))
        pictures.append(element("li", thumb(sample, row), element("span.caption", name)))
    return element("ul.duplicates", *pictures)


def view_table(sample: Sample) -> Html | None:
    """Each group an image and its views."""
    if sample.views is None:
        return None
    columns, rows = sample.views.columns, sample.views.rows
    titles = ["original", *(f"view {number}" for number in range(1, columns))]
    groups = []
    for row in range(rows):
        cells = []
        for column, name in enumerate(titles):
            said, style = f"image {row + 1}, {name}", f"--column:{column};--row:{row}"
            picture = element("span.view", style=style, role="img", aria_label=said)
            cells.append(element("span", picture, element("span.note", name)))
        groups.append(element("div.view-row", *cells))
    return element("div.views", *groups, style=f"--across:{columns}")


def labels_content(shown: ShownLabels) -> Html:
    """The groups of one kind."""
    summary = element("p", shown.summary) if shown.summary else None
    groups = [
        element("div.label-group", element("h3", group.heading), element("ul.duplicates", *map(_tile, group.pictures)))
        for group in shown.groups
        if group.pictures
    ]
    return join(summary, *(groups or [element("p.quiet", "None.")]))


def _tile(shown: ShownPicture) -> Html:
    address = f"data:image/jpeg;base64,{shown.picture}"
    picture = element("img", src=address, alt=shown.name, title=shown.name, width="72", height="72")
    names = element("span.names", shown.name)
    caption = element("span.caption", element("b", shown.caption) if shown.caption else None, names)
    return element("li", picture if shown.picture else None, caption)
