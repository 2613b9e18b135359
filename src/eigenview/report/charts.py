"""What the page's scripts draw: plain numbers, ready for JSON."""

import base64
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigenview.files import JSON
from eigenview.graph.sphere import uniformity_floor
from eigenview.report.structure import Confusion, Structure, class_name
from eigenview.runs import Sample
from eigenview.runs.contents import RunContents

POINTS = 800  # of a curve; more lines are averaged in groups
CURVES = "loss chance alignment uniformity effective_rank learning_rate knn_accuracy gradient_norm".split()
T = 2.0  # of the uniformity that training logs


def curves(run: RunContents) -> dict[str, JSON]:
    """Each metric as {x: steps, y: values}; missing values are left out."""
    drawn: dict[str, JSON] = {}
    listed = {name: run.metrics.series(name) for name in CURVES}
    for name, pairs in {**listed, "plane": run.metrics.series("uniformity", over="alignment")}.items():
        if pairs:
            x, y = thinned(pairs)
            drawn[name] = {"x": x, "y": y}
    return drawn


def thinned(pairs: Sequence[tuple[float, float]]) -> tuple[list[JSON], list[JSON]]:
    """At most ``POINTS`` points, each the mean of a run of neighbours; the first and the last stay as they are."""
    values = np.array(pairs, dtype=np.float64)
    if len(values) > POINTS:
        groups = np.array_split(values[1:-1], POINTS - 2)
        values = np.vstack([values[:1], *(group.mean(axis=0, keepdims=True) for group in groups), values[-1:]])
    return [_rounded(x) for x in values[:, 0]], [_rounded(y) for y in values[:, 1]]


def chart_data(runs: Sequence[RunContents], structures: Mapping[int, Structure]) -> dict[str, JSON]:
    """Everything but the map: ``structures`` holds that of each run with a sample, by its place."""
    listed: list[JSON] = []
    for place, run in enumerate(runs):
        structure = structures.get(place)
        listed.append(
            {
                "name": run.name,
                "curves": curves(run),
                "alarms": [{"step": step, "message": message} for step, message in run.metrics.alarms],
                "spectra": _spectra(run, structure),
                "laplacian": _laplacian(run, structure),
            }
        )
    views = runs[0].sample.first_view if len(runs) == 1 and runs[0].sample is not None else None
    floor = None if views is None else uniformity_floor(views.shape[1], t=T)  # in as many dimensions as they have
    return {"runs": listed, "floor": floor}


def _spectra(run: RunContents, structure: Structure | None) -> list[JSON]:
    if structure is not None and structure.spectra:
        return [{"name": name, "values": [_rounded(value) for value in values]} for name, values in structure.spectra]
    if run.diagnosis is None or not run.diagnosis.figures.singular_values:
        return []
    raw = run.diagnosis.figures.singular_values
    shares: list[JSON] = [_rounded(value / raw[0]) for value in raw if value > 0]
    return [{"name": "embeddings, mean kept", "values": shares}]


def _laplacian(run: RunContents, structure: Structure | None) -> JSON:
    counted = structure.laplacian if structure is not None else None
    if counted is None and run.diagnosis is not None:
        counted = run.diagnosis.figures.clusters
    if counted is None:
        return None
    values: list[JSON] = [_rounded(value) for value in counted.eigenvalues]
    return {"values": values, "clusters": counted.clusters, "components": counted.components, "nodes": counted.nodes}


def confusion_data(confusion: Confusion | None) -> JSON:
    if confusion is None:
        return None
    totals = np.maximum(confusion.counts.sum(axis=1, keepdims=True), 1)
    shares: list[JSON] = [[_rounded(value) for value in row] for row in confusion.counts / totals]
    counts: list[JSON] = [[int(value) for value in row] for row in confusion.counts]
    return {"classes": list(confusion.classes), "shares": shares, "counts": counts}


def map_data(sample: Sample, structure: Structure) -> dict[str, JSON]:
    """Places as 16-bit numbers, one plane after another; what a point is coloured by; each point's neighbours."""
    maps: list[JSON] = [
        {"name": projection.name, "note": projection.note, "places": _packed(on_grid(projection.places), np.uint16)}
        for projection in structure.projections
    ]
    colourings: list[JSON] = []
    if sample.labels is not None:
        present = [int(label) for label in np.unique(sample.labels)]
        colourings.append(_colouring("label", sample.labels, {label: class_name(sample, label) for label in present}))
    clusters = {int(k): f"cluster {k + 1}" for k in np.unique(sample.clusters)}
    colourings.append(_colouring("cluster", sample.clusters, clusters))
    if sample.prototypes is not None and len(used := np.unique(sample.prototypes)) <= 60:
        colourings.append(_colouring("prototype", sample.prototypes, {int(k): f"prototype {k}" for k in used}))
    sheets = sample.thumbnails
    return {
        "count": len(sample.names),
        "maps": maps,
        "colourings": colourings,
        "names": list(sample.names),
        "neighbours": _packed(structure.neighbours[:, :8], np.uint32),
        "width": min(8, structure.neighbours.shape[1]),
        "sheet": {"columns": sheets.columns, "rows": sheets.rows},
    }


def _colouring(name: str, values: NDArray[np.int64], names: Mapping[int, str]) -> JSON:
    """Groups in the order of their numbers, with how many points each has."""
    keys = sorted(names, key=lambda key: (key < 0, key))
    place = {key: at for at, key in enumerate(keys)}
    of = [place[int(value)] for value in values]
    counts: list[JSON] = [int(value) for value in np.bincount(of, minlength=len(keys))]
    return {"name": name, "groups": [names[key] for key in keys], "counts": counts, "of": _packed(of, np.uint16)}


def on_grid(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Both axes scaled alike into 0 … 65535, centred: shapes keep their proportions."""
    low, high = places.min(axis=0), places.max(axis=0)
    size = max(float((high - low).max()), 1e-12)
    scaled: NDArray[np.float64] = (places - (low + high) / 2) / size * 65000 + 32767
    return scaled


def _packed(values: ArrayLike, kind: type[np.unsignedinteger]) -> str:
    """Little-endian numbers in base64."""
    return base64.b64encode(np.ascontiguousarray(values).astype(np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
