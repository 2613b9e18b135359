"""Protocols by name on features that are at hand: each gives scores that can be kept and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenview.data import Source
from eigenview.distributed import Group
from eigenview.errors import SettingError
from eigenview.evaluation.checks import check_labels, check_no_class_is_new, check_several_classes
from eigenview.evaluation.clustering import (
    STARTS,
    adjusted_rand_index,
    cluster,
    cluster_hits,
    contingency,
    normalised_mutual_information,
)
from eigenview.evaluation.features import extract
from eigenview.evaluation.few_label import few_label_accuracy
from eigenview.evaluation.identity import data_identity, weights_identity
from eigenview.evaluation.knn import knn_predict
from eigenview.evaluation.linear import INVERSE_PENALTIES, select_logistic
from eigenview.evaluation.probe import FeatureRows, train_probe
from eigenview.evaluation.protocols import PROTOCOLS
from eigenview.evaluation.retrieval import retrieve
from eigenview.evaluation.scores import JSON, Score, bootstrap_interval, mean_score
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView

NEIGHBOURS = (1, 5, 20, 200)
LABELS_PER_CLASS = (1, 5, 10)
DRAWS = 20
CLUSTER_NEIGHBOURS = 20  # edges of each row in the graph that spectral clustering cuts
FOLDS = 5


@dataclass(frozen=True)
class Split:
    """Features of a training and a test set, and what a score says about where they come from."""

    train: Tensor  # (n, d)
    train_labels: Tensor
    test: Tensor  # (m, d)
    test_labels: Tensor
    layer: str
    data: dict[str, JSON]
    subject: str
    encoder: str
    seed: int

    def __post_init__(self) -> None:
        check_labels(self.train_labels, len(self.train), "training labels")
        check_labels(self.test_labels, len(self.test), "test labels")
        check_several_classes(self.train_labels, "training labels")
        check_no_class_is_new(self.train_labels, self.test_labels)

    def standardised(self) -> tuple[Tensor, Tensor]:
        """Both parts with the training columns' mean 0 and deviation 1; constant columns become 0."""
        mean, deviation = self.train.mean(dim=0), self.train.std(dim=0)
        scale = torch.where(deviation > 0, deviation, torch.inf)
        return (self.train - mean) / scale, (self.test - mean) / scale

    def score(self, items: Tensor, name: str, metric: str, **protocol: JSON) -> Score:
        return mean_score(
            items,
            name=name,
            metric=metric,
            protocol={"layer": self.layer, **protocol},
            data=self.data,
            subject=self.subject,
            encoder=self.encoder,
            seed=self.seed,
        )


def evaluate(
    encoder: Encoder,
    train: Source,
    test: Source,
    *,
    view: CentreView,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    head: nn.Module | None = None,
    subject: str = "encoder",
    cache: str | Path | None = None,
    seed: int = 0,
    group: Group = None,
) -> list[Score]:
    """Scores of every protocol on every layer; features are computed once for all of them.

    ``train`` and ``test`` are labelled sources with the same label order. Protocols: knn, linear, few-label, kmeans,
    spectral, retrieval, and the minibatch probes of ``PROTOCOLS``, here on the features of the evaluation view.
    """
    chosen = [find_evaluation(name) for name in protocols]
    before, after = (
        extract(encoder, source, view=view, layers=layers, head=head, cache=cache, group=group)
        for source in (train, test)
    )
    data = {"train": data_identity(train, before.labelled), "test": data_identity(test, after.labelled)}
    weights = weights_identity(encoder, *([] if head is None else [head]))
    scores: list[Score] = []
    for layer in layers:
        split = Split(
            before[layer], before.labelled, after[layer], after.labelled, layer, dict(data), subject, weights, seed
        )
        scores += [score for protocol in chosen for score in protocol(split)]
    return scores


def knn_scores(split: Split) -> list[Score]:
    """Wu et al.'s weighted vote, exp(cosine/0.1), for each k that the bank allows."""
    wanted = [k for k in NEIGHBOURS if k <= len(split.train)]
    found = knn_predict(split.train, split.train_labels, split.test, k=wanted, weights="exponential", temperature=0.1)
    return [
        split.score(
            predicted == split.test_labels,
            f"knn k={k}",
            "accuracy",
            k=k,
            similarity="cosine",
            weights="exponential",
            temperature=0.1,
        )
        for k, predicted in found.items()
    ]


def linear_scores(split: Split) -> list[Score]:
    """Logistic regression on standardised features, the penalty by cross-validation on the training part."""
    train, test = split.standardised()
    found = select_logistic(train, split.train_labels, folds=FOLDS, seed=split.seed)
    right = found.classifier.predict(test) == split.test_labels
    grid: list[JSON] = [*INVERSE_PENALTIES]
    return [split.score(right, "linear", "accuracy", standardised=True, inverse_penalties=grid, folds=FOLDS)]


def few_label_scores(split: Split) -> list[Score]:
    """Logistic regression on standardised features, and the nearest row by cosine, from a few labels of each class."""
    fewest = int(torch.unique(split.train_labels, return_counts=True)[1].min())
    scores = []
    for count in (one for one in LABELS_PER_CLASS if one <= fewest):
        for classifier, prefix, (train, test) in (
            ("logistic", "", split.standardised()),
            ("nearest", "1-NN, ", (split.train, split.test)),
        ):
            found = few_label_accuracy(
                train,
                split.train_labels,
                test,
                split.test_labels,
                per_class=count,
                classifier=classifier,  # type: ignore[arg-type]
                draws=DRAWS,
                seed=split.seed,
            )
            own: dict[str, JSON] = {"inverse_penalty": 1.0} if classifier == "logistic" else {"similarity": "cosine"}
            score = split.score(found.items, f"{prefix}{count} labels a class", "accuracy", draws=DRAWS, **own)
            scores.append(replace(score, interval=found.interval))  # over draws, the larger uncertainty
    return scores


def cluster_scores(split: Split, method: str) -> list[Score]:
    """Clusters of the test features, as many as there are classes; no label is used to find them."""
    count = len(torch.unique(split.test_labels))
    found = cluster(split.test, count, method=method, neighbours=CLUSTER_NEIGHBOURS, seed=split.seed)  # type: ignore[arg-type]
    settings: dict[str, JSON] = {"starts": STARTS} if method == "kmeans" else {"neighbours": CLUSTER_NEIGHBOURS}
    hits = split.score(cluster_hits(found, split.test_labels), method, "hungarian accuracy", clusters=count, **settings)
    scores = [hits]
    for metric, measure in {"nmi": normalised_mutual_information, "ari": adjusted_rand_index}.items():
        interval = bootstrap_interval(
            lambda index, measure=measure: measure(contingency(found[index], split.test_labels[index])),  # type: ignore[misc]
            len(found),
            draws=500,
            seed=split.seed,
        )
        value = measure(contingency(found, split.test_labels))
        scores.append(replace(hits, metric=metric, value=value, interval=interval, items=()))
    return scores


def retrieval_scores(split: Split) -> list[Score]:
    """Every test image asks for the others of its class."""
    found = retrieve(split.test, split.test_labels, k=[k for k in (1, 5, 10) if k < len(split.test)])
    scores = [split.score(found.average_precision, "retrieval", "map", similarity="cosine")]
    return scores + [
        split.score(recall, "retrieval", f"recall@{k}", similarity="cosine") for k, recall in found.recall.items()
    ]


def probe_scores(split: Split, name: str) -> list[Score]:
    """A minibatch protocol on the features of the evaluation view, at the paper's learning rate."""
    found = train_probe(PROTOCOLS[name], FeatureRows(split.train, split.train_labels), seed=split.seed)
    right = found.classifier.predict(split.test) == split.test_labels
    settings = {key: value for key, value in asdict(PROTOCOLS[name]).items() if key not in ("views", "margin")}
    return [split.score(right, f"probe {name}", "accuracy", views="evaluation", **settings)]


EVALUATIONS: dict[str, Callable[[Split], list[Score]]] = {
    "knn": knn_scores,
    "linear": linear_scores,
    "few-label": few_label_scores,
    "kmeans": lambda split: cluster_scores(split, "kmeans"),
    "spectral": lambda split: cluster_scores(split, "spectral"),
    "retrieval": retrieval_scores,
}


def find_evaluation(name: str) -> Callable[[Split], list[Score]]:
    if name in EVALUATIONS:
        return EVALUATIONS[name]
    if name in PROTOCOLS:
        return lambda split: probe_scores(split, name)
    known = [*EVALUATIONS, *PROTOCOLS]
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise SettingError(f"an evaluation is one of {', '.join(known)}; got {name!r}{meant}")
