"""Protocols by name, and a subject measured by them: on a task, on folds, and a run beside what it must beat."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from eigenview.batches import PROJECTION
from eigenview.batches.identity import data_identity, settings_identity, share_within
from eigenview.data import Source
from eigenview.distributed import rank
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.dense import depth_scores
from eigenview.evaluation.finetuning import finetune_scores
from eigenview.evaluation.linear import EncoderChoice, choose_encoder
from eigenview.evaluation.probe import view_probe_scores
from eigenview.evaluation.protocol_scores import FEATURE_PROTOCOLS, FeatureProtocol, Split
from eigenview.evaluation.protocols import FINETUNES, PROBES
from eigenview.evaluation.sampling import label_stored_sample
from eigenview.evaluation.scores import over_repeats
from eigenview.evaluation.subjects import (
    BASELINES,
    AnyImages,
    Folds,
    Measuring,
    Subject,
    Task,
    open_labelled,
    subjects_of,
)
from eigenview.files import JSON, check_writable
from eigenview.names import Table
from eigenview.nn import POOLED
from eigenview.nn.encoder import check_layers
from eigenview.runs import SEEN, OpenedRun, Score

SourceProtocol = Callable[[Subject, Task, Measuring], Iterator[Score]]

LAST = 100  # the order of what nobody placed
CHANCE = 0.05  # share of the test images that training may have seen as copies, by accident


@dataclass(frozen=True)
class Shown:
    """How a page shows scores called ``names`` (a regular expression): under ``title``, the lowest ``order`` first."""

    names: str
    title: str = ""  # with the groups of ``names``; what the score is called where there is none
    order: int = LAST
    kind: str = ""  # the best of a kind may head the page; the first word of the name where there is none


@dataclass(frozen=True)
class Protocol:
    """``on_features`` measures features of the evaluation view; ``on_source`` runs the encoder in its own way."""

    on_features: FeatureProtocol | None = None
    on_source: SourceProtocol | None = None
    shown: tuple[Shown, ...] = ()


SHOWN = {  # the most telling first: by how many labels they need, and how much they vary
    "linear": (Shown("linear", "Linear probe", 0),),
    "knn": (
        Shown("knn k=20", "20 nearest neighbours", 2),
        Shown("knn k=1", "1 nearest neighbour", 6),
        Shown(r"knn k=(\d+)", r"\1 nearest neighbours", 6),
    ),
    "few-label": (
        Shown("10 labels a class", order=3, kind="few labels"),
        Shown("1 labels a class", "1 label a class", 5, "few labels"),
        Shown(".*labels a class", kind="few labels"),
    ),
    "kmeans": (Shown("kmeans", "k-means clusters", 4),),
    "spectral-clustering": (Shown("spectral", "Spectral clusters"),),  # as earlier versions called it
    "retrieval": (Shown("retrieval", order=7),),
    **dict.fromkeys((f"probe-{name}" for name in PROBES), (Shown("probe .*", order=1),)),
}
SWAV_BY_SHARE = {0.01: FINETUNES["swav-1%"], 0.1: FINETUNES["swav-10%"]}
SOURCE_PROTOCOLS: dict[str, SourceProtocol] = {
    **{f"view-probe-{name}": partial(view_probe_scores, protocol=name) for name in PROBES},
    "finetune": finetune_scores,
    "finetune-swav": partial(finetune_scores, protocols=SWAV_BY_SHARE, called="swav"),
    "depth": depth_scores,
}
PROTOCOLS = Table(
    "protocol",
    {name: Protocol(measure, shown=SHOWN.get(name, ())) for name, measure in FEATURE_PROTOCOLS.items()}
    | {name: Protocol(on_source=measure, shown=SHOWN.get(name, ())) for name, measure in SOURCE_PROTOCOLS.items()},
    more="; of runs that learnt from captions also captions and zero-shot, each by itself",
)


def shown_as(name: str) -> Shown:
    """How a score of that name is shown, as the first protocol that knows it says, with its title and kind."""
    said = (shown for protocol in PROTOCOLS.values() for shown in protocol.shown if re.fullmatch(shown.names, name))
    shown = next(said, Shown(".*"))
    title = re.sub(shown.names, shown.title, name, count=1) if shown.title else name[:1].upper() + name[1:]
    return replace(shown, title=title, kind=shown.kind or name.partition(" ")[0])


def evaluate(
    subject: Subject,
    task: Task | Folds,
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """Scores of every protocol (``PROTOCOLS``), one by one as they are known.

    Those on features are measured on every one of ``layers``, from features computed once for all; those that run the
    encoder themselves (probes with new views in every epoch, fine-tuning, depth) choose their own.

    Of ``Folds``, each protocol is trained on one fold and measured on all other items, for every fold. A score is the
    mean over folds with Student's interval over them; its ``items`` are the folds' own values, so that ``compare``
    pairs encoders fold by fold.
    """
    how = measuring or Measuring()
    chosen = {name: PROTOCOLS.find(name) for name in protocols}
    on_features = [protocol.on_features for protocol in chosen.values() if protocol.on_features is not None]
    if isinstance(task, Folds):
        for name, protocol in chosen.items():
            if protocol.on_features is None:
                raise SettingError(f"folds are measured on features, and {name} runs the encoder itself; leave it out")
        yield from _fold_scores(subject, task, on_features, layers, how)
        return
    if on_features:
        before, after = (subject.features(source, layers, how) for source in (task.train, task.test))
        data = task.identity(before.labelled, after.labelled)
        for layer in layers:
            split = Split(before[layer], before.labelled, after[layer], after.labelled, layer, data, subject, how)
            for measure in on_features:
                yield from measure(split)
    for protocol in chosen.values():
        if protocol.on_source is not None:
            yield from protocol.on_source(subject, task, how)


def _fold_scores(
    subject: Subject, task: Folds, protocols: Sequence[FeatureProtocol], layers: Sequence[str], how: Measuring
) -> Iterator[Score]:
    folds = task.folds
    if len(folds) < 2:
        raise SettingError(f"a mean over folds needs at least two of them; got {len(folds)}")
    features = subject.features(task.source, layers, how)
    listed = settings_identity({"folds": [fold.tolist() for fold in folds]})
    identity = data_identity(task.source, features.labelled)
    data: dict[str, JSON] = {"train": identity, "folds": f"{len(folds)} of {listed}"}
    if task.name:
        data["set"] = task.name
    are_learned = [torch.isin(features.index, fold) for fold in folds]
    for place, own in enumerate(are_learned):
        if not own.any() or own.all():
            raise DataError(f"fold {place} holds {int(own.sum())} of {len(own)} items; it must leave some to test")
    for layer in layers:
        rows, labels = features[layer], features.labelled
        splits = [
            Split(rows[own], labels[own], rows[~own], labels[~own], layer, data, subject, how) for own in are_learned
        ]
        for measure in protocols:
            by_fold = [list(measure(split)) for split in splits]
            yield from (over_repeats(repeats, over="folds") for repeats in zip(*by_fold, strict=True))


def evaluate_run(
    run: OpenedRun,
    tasks: Sequence[Task | Folds],
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    baselines: Sequence[str] = tuple(BASELINES),
    supervised: OpenedRun | None = None,
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """Scores of a run and its baselines on every task (or folds), kept in ``RUN/evaluation`` as soon as they are known.

    ``supervised`` is a run trained on labels. Scores of a run that saw the test images say so (``was_seen``). The layer
    ``projection`` is the run's own, after its head: baselines have none and are measured on the other layers that they
    have.
    """
    how = measuring or Measuring()
    if not tasks:
        raise SettingError("there is no data set to evaluate on; give a Task of training and test images")
    for name in protocols:
        PROTOCOLS.find(name)
    check_layers([name for name in layers if name != PROJECTION] or [POOLED], run.encoder.layer_names)
    check_writable(run.folder)
    for subject in subjects_of(
        run, baselines=baselines, supervised=supervised, with_head=PROJECTION in layers, seed=how.seed
    ):
        known = (*subject.encoder.layer_names, *([] if subject.head is None else [PROJECTION]))
        own = [name for name in layers if name in known]
        trained = next((each for each in (run, supervised or run) if each.encoder is subject.encoder), None)
        for task in tasks if own else ():
            is_seen = trained is not None and was_trained_on(trained, task.test)
            scores = evaluate(subject, task, protocols=protocols, layers=own, measuring=how)
            for score in (replace(score, data={**score.data, SEEN: True}) if is_seen else score for score in scores):
                if rank(how.group) == 0:
                    run.directory.save_score(score)
                yield score
    if rank(how.group) == 0:
        label_stored_sample(run, tasks)


def choose_run(runs: Iterable[OpenedRun], source: AnyImages, *, folds: int = 5, seed: int = 0) -> EncoderChoice:
    """The best of several runs, of different names, by cross-validation on labelled training images."""
    images, how = open_labelled(source), Measuring(seed=seed)
    features = {run.name: Subject.of_run(run).features(images, [POOLED], how) for run in runs}
    labels = next((seen.labelled for seen in features.values()), torch.empty(0))
    return choose_encoder({name: seen[POOLED] for name, seen in features.items()}, labels, folds=folds, seed=seed)


def was_trained_on(run: OpenedRun, test: Source) -> bool:
    """Whether a run saw these images in training, or more of them than by accident."""
    return run.directory.is_trained and share_within(test, run.directory.data.sketch) > CHANCE
