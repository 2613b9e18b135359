"""What each protocol makes of features that are at hand: scores, one by one, as they are known."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch
from torch import Tensor

from eigenview.evaluation.features import TrainTest
from eigenview.evaluation.few_label import Classifier, LabelDraws, few_label_accuracy
from eigenview.evaluation.linear import INVERSE_PENALTIES, select_logistic
from eigenview.evaluation.probe import FeatureRows, train_probe
from eigenview.evaluation.protocols import PROBES, ProbeProtocol
from eigenview.evaluation.scores import mean_score, subsample_interval
from eigenview.evaluation.similarity import (
    STARTS,
    cluster,
    cluster_hits,
    contingency,
    knn_predict,
    normalised_mutual_information,
    retrieve,
)
from eigenview.evaluation.subjects import Measuring, Subject
from eigenview.files import JSON
from eigenview.graph.clustering import adjusted_rand_index
from eigenview.progress import progress_bar
from eigenview.runs import Score

NEIGHBOURS = (1, 5, 20, 200)
LABELS_PER_CLASS = (1, 5, 10)
DRAWS = 20
CLUSTER_NEIGHBOURS = 20  # edges of each row in the graph that spectral clustering cuts
FOLDS = 5


@dataclass(frozen=True)
class Split(TrainTest):
    """Features of a training and a test set, and what a score says about where they come from."""

    layer: str
    data: Mapping[str, JSON]
    subject: Subject
    how: Measuring

    def score(self, items: Tensor, name: str, metric: str, **protocol: JSON) -> Score:
        origin = self.subject.origin(self.data, self.how)
        return mean_score(items, origin, name=name, metric=metric, protocol={"layer": self.layer, **protocol})


FeatureProtocol = Callable[[Split], Iterator[Score]]


def knn_scores(split: Split) -> Iterator[Score]:
    """Wu et al.'s weighted vote, exp(cosine/0.1), for each k that the bank allows."""
    wanted = [k for k in NEIGHBOURS if k <= len(split.train)]
    votes = knn_predict(split.train, split.train_labels, split.test, k=wanted, temperature=0.1)
    settings: dict[str, JSON] = {"similarity": "cosine", "weights": "exponential", "temperature": 0.1}
    for k, predicted in votes.items():
        yield split.score(predicted == split.test_labels, f"knn k={k}", "accuracy", k=k, **settings)


def linear_scores(split: Split) -> Iterator[Score]:
    """Logistic regression on standardised features, the penalty by cross-validation on the training part."""
    rows = split.standardised()
    fits = len(INVERSE_PENALTIES) * (FOLDS + 1)
    with progress_bar(f"linear: {split.subject.name}", total=fits, shown=split.how.is_shown) as advance:
        selection = select_logistic(rows.train, rows.train_labels, folds=FOLDS, seed=split.how.seed, advance=advance)
    right = selection.classifier.predict(rows.test) == split.test_labels
    grid: list[JSON] = [*INVERSE_PENALTIES]
    score = split.score(right, "linear", "accuracy", standardised=True, inverse_penalties=grid, folds=FOLDS)
    unfinished = selection.unfinished + (not selection.classifier.is_converged)
    yield replace(score, note=_shortfall(unfinished, fits + 1))


def few_label_scores(split: Split) -> Iterator[Score]:
    """Logistic regression on standardised features, and the nearest row by cosine, from a few labels of each class."""
    fewest = int(torch.unique(split.train_labels, return_counts=True)[1].min())
    kinds: tuple[tuple[Classifier, str, TrainTest, dict[str, JSON]], ...] = (
        ("logistic", "", split.standardised(), {"inverse_penalty": 1.0}),
        ("nearest", "1-NN, ", split, {"similarity": "cosine"}),
    )
    for count in (number for number in LABELS_PER_CLASS if number <= fewest):
        for classifier, prefix, rows, own in kinds:
            name, drawn = f"{prefix}{count} labels a class", LabelDraws(count, DRAWS, split.how.seed)
            with progress_bar(f"{name}: {split.subject.name}", total=DRAWS, shown=split.how.is_shown) as advance:
                accuracy = few_label_accuracy(rows, drawn, classifier=classifier, advance=advance)
            score = split.score(accuracy.items, name, "accuracy", draws=DRAWS, **own)
            note = _shortfall(accuracy.unfinished, DRAWS)
            yield replace(score, interval=accuracy.interval, note=note)  # over draws, the larger uncertainty


def _shortfall(unfinished: int, fits: int) -> str:
    return (
        f"{unfinished} of {fits} fits ended by their number of iterations, short of the optimum" if unfinished else ""
    )


def cluster_scores(split: Split, *, method: str, name: str) -> Iterator[Score]:
    """Clusters of the test features, as many as there are classes; no label is used to find them."""
    count = len(torch.unique(split.test_labels))
    edges = min(CLUSTER_NEIGHBOURS, max(1, len(split.test) // count - 1))  # no more than a class has others
    groups = cluster(split.test, count, method=method, neighbours=edges, seed=split.how.seed)  # type: ignore[arg-type]
    settings: dict[str, JSON] = {"starts": STARTS} if method == "kmeans" else {"neighbours": edges}
    hits = split.score(cluster_hits(groups, split.test_labels), name, "hungarian accuracy", clusters=count, **settings)
    yield hits
    measures = {"nmi": (normalised_mutual_information, 0.0), "ari": (adjusted_rand_index, -0.5)}
    for metric, (measure, lowest) in measures.items():
        interval = subsample_interval(
            lambda index, measure=measure: measure(contingency(groups[index], split.test_labels[index])),  # type: ignore[misc]
            len(groups),
            limits=(lowest, 1.0),
            draws=200,
            seed=split.how.seed,
        )
        value = measure(contingency(groups, split.test_labels))
        yield replace(hits, metric=metric, value=value, interval=interval, is_share=False, items=())


def retrieval_scores(split: Split) -> Iterator[Score]:
    """Every test image asks for the others of its class."""
    ranking = retrieve(split.test, split.test_labels, k=[k for k in (1, 5, 10) if k < len(split.test)])
    yield split.score(ranking.average_precision, "retrieval", "map", similarity="cosine")
    for k, recall in ranking.recall.items():
        yield split.score(recall, "retrieval", f"recall@{k}", similarity="cosine")


def probe_scores(split: Split, *, name: str, protocol: ProbeProtocol) -> Iterator[Score]:
    """A minibatch protocol on the features of the evaluation view, at the paper's learning rate."""
    result = train_probe(protocol, FeatureRows(split.train, split.train_labels), seed=split.how.seed)
    right = result.classifier.predict(split.test) == split.test_labels
    settings = {key: value for key, value in asdict(protocol).items() if key not in ("views", "margin")}
    yield split.score(right, f"probe {name}", "accuracy", views="evaluation", **settings)


FEATURE_PROTOCOLS: dict[str, FeatureProtocol] = {
    "knn": knn_scores,
    "linear": linear_scores,
    "few-label": few_label_scores,
    "kmeans": partial(cluster_scores, method="kmeans", name="kmeans"),
    "spectral-clustering": partial(cluster_scores, method="spectral", name="spectral clustering"),
    "retrieval": retrieval_scores,
    **{f"probe-{name}": partial(probe_scores, name=name, protocol=protocol) for name, protocol in PROBES.items()},
}
