"""Labels of the rest from a few: along the graph, as published, and along the graph and through a head.

Labels (n,) are class numbers, −1 for none. Every way gives probabilities (n, K), rows summing to 1; labelled rows keep
their label. Where nothing reaches a row, as in a part of the graph without labels, the classes seen are equally likely.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg
from torch import Tensor
from torch.nn.functional import one_hot

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import check_labels, some
from eigenview.graph.transport import sinkhorn
from eigenview.labels.graph import ImageGraph

ALPHA, STEPS = 0.99, 100  # of label spreading
NO_LABEL = -1
RESIZINGS = 50  # scalings of columns and rows in turn
ACCURACY = 1e-5  # of linear systems, relative

Array = NDArray[np.float32]
Floats = NDArray[np.floating[Any]]


def label_spreading(graph: ImageGraph, labels: Tensor, *, classes: int, sizes: Tensor | None = None) -> Tensor:
    """Zhou et al. 2004: 100 steps of F ← 0.99·S·F + 0.01·Y, columns then normalised, which corrects class sizes.

    ``sizes`` (K,), the shares of the classes where they are known: columns are scaled until they have them.
    """
    check_few_labels(graph, labels, classes, sizes)
    return with_labels(shares_of(diffused(graph, targets(labels, classes)), sizes), labels)


def harmonic(graph: ImageGraph, labels: Tensor, *, classes: int, sizes: Tensor | None = None) -> Tensor:
    """Zhu et al. 2003: every row that has no label is the weighted mean of its neighbours.

    ``sizes`` as in :func:`label_spreading`; without them, rows are as they are, which with very few labels favours
    one class.
    """
    check_few_labels(graph, labels, classes, sizes)
    is_known = (labels != NO_LABEL).numpy()
    root = np.sqrt(_degree(graph))
    free = np.flatnonzero(~is_known)
    values = targets(labels, classes)
    if len(free):
        inside = graph.normalized[free]
        right = inside[:, is_known] @ (values[is_known] * root[is_known, None])
        matrix = sparse.eye_array(len(free), dtype=np.float32, format="csr") - inside[:, free]
        values[free] = _solved(matrix, right) / root[free, None]
    values = np.maximum(values, 0)
    return with_labels(_rows_to_one(values, values) if sizes is None else shares_of(values, sizes), labels)


def poisson(graph: ImageGraph, labels: Tensor, *, classes: int, sizes: Tensor | None = None) -> Tensor:
    """Poisson learning, Calder et al. 2020: L·u = Σ_j (y_j − ȳ)·δ_j, labels as sources and sinks.

    u_c is scaled by (share of class c)/ȳ_c, as published for known class sizes; without ``sizes`` all are alike.
    Probabilities are the rows of what is positive of it.
    """
    check_few_labels(graph, labels, classes, sizes)
    is_known = (labels != NO_LABEL).numpy()
    sources = targets(labels, classes)
    mean = sources[is_known].mean(axis=0)
    sources[is_known] -= mean
    root = np.sqrt(_degree(graph))
    matrix = sparse.eye_array(len(graph), format="csr") * (1 + 1e-5) - graph.normalized  # a little above singular
    flow = _solved(matrix, sources / root[:, None]) / root[:, None]
    wanted = np.ones(classes, dtype=np.float32) if sizes is None else sizes.numpy().astype(np.float32)
    scaled = np.maximum(flow * np.divide(wanted, mean, out=np.zeros_like(wanted), where=mean > 0), 0)
    return with_labels(_rows_to_one(scaled, mean[None]), labels)


def diffused(graph: ImageGraph, sources: Array, *, alpha: float = ALPHA, steps: int = STEPS) -> Array:
    """``steps`` of F ← α·S·F + (1 − α)·Y from F = Y, for ``sources`` Y (n,) or (n, c); linear in Y."""
    flow, matrix = sources, graph.normalized
    for _ in range(steps):
        flow = np.float32(alpha) * (matrix @ flow) + np.float32(1 - alpha) * sources
    return flow


def shares_of(flow: Array, sizes: Tensor | None) -> Tensor:
    """Rows summing to 1 of F (n, K) ≥ 0, columns first normalised, or scaled until the classes have ``sizes``."""
    total = flow.sum(axis=0)
    columns = flow / np.where(total > 0, total, 1)
    shares = _rows_to_one(columns, total[None])
    return shares if sizes is None else resized(shares, sizes)


def resized(shares: Tensor, sizes: Tensor) -> Tensor:
    """Columns of ``shares`` (n, K) scaled until each class has its share of all rows, rows summing to 1."""
    scores = shares.double().clamp_min(1e-12).log()
    return sinkhorn(scores, epsilon=1.0, iterations=RESIZINGS, column_marginal=sizes.double()).to(shares.dtype)


def with_labels(shares: Tensor, labels: Tensor) -> Tensor:
    """Labelled rows certain of their label; in place."""
    rows = (labels != NO_LABEL).nonzero().flatten()
    shares[rows] = one_hot(labels[rows], shares.shape[1]).to(shares.dtype)
    return shares


def targets(labels: Tensor, classes: int) -> Array:
    """Y (n, K): a 1 for each label."""
    values = np.zeros((len(labels), classes), dtype=np.float32)
    rows = (labels != NO_LABEL).nonzero().flatten().numpy()
    values[rows, labels.numpy()[rows]] = 1
    return values


def check_few_labels(graph: ImageGraph, labels: Tensor, classes: int, sizes: Tensor | None) -> None:
    """Refuse what nothing can be spread from: no labels, one class, numbers that name no class."""
    if labels.shape != (len(graph),):
        raise DataError(f"labels must be {len(graph)} numbers, −1 where there is none; got {tuple(labels.shape)}")
    known = labels[labels != NO_LABEL]
    if len(known) == 0:
        raise DataError("no image has a label yet; label at least one image of each of two classes")
    check_labels(known, len(known), "labels", classes=classes)
    if len(torch.unique(known)) < 2:
        raise DataError(f"all {len(known)} labels name one class, {some(known[:1])}; label an image of another class")
    if sizes is None:
        return
    if sizes.shape != (classes,) or not bool((sizes.isfinite() & (sizes > 0)).all()):
        raise SettingError(f"class sizes must be {classes} numbers above 0; got {sizes.tolist()}")


def _rows_to_one(values: Floats, seen: Floats) -> Tensor:
    """Rows divided by their sums; where a row is zero, the classes with any of ``seen`` are equally likely."""
    total = values.sum(axis=1, keepdims=True)
    is_seen = (seen > 0).any(axis=0)
    even = (is_seen / max(1, is_seen.sum())).astype(np.float32)
    tiny = np.finfo(np.float32).tiny
    return torch.from_numpy(np.where(total > tiny, values / np.maximum(total, tiny), even).astype(np.float32))


def _degree(graph: ImageGraph) -> Array:
    degree = np.asarray(graph.weights.sum(axis=1)).ravel()
    return np.where(degree > 0, degree, 1).astype(np.float32)


def _solved(matrix: sparse.csr_array, right: Floats) -> Array:
    """A⁻¹·b for each column of b, A symmetric and positive on what b reaches."""
    wide = matrix.astype(np.float64)  # parts that hang together by little need it
    columns = [cg(wide, column.astype(np.float64), rtol=ACCURACY, maxiter=2000)[0] for column in right.T]
    return np.stack(columns, axis=1).astype(np.float32)
