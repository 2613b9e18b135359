"""How good a run's features are on labelled images, next to raw pixels and the same encoder untrained.

Scores are kept in RUN/evaluation, for compare and report. Protocols: knn, linear, few-label, kmeans, spectral,
retrieval, and the papers' probes (moco, simclr-cifar, swav, simsiam, random-walk, wang-isola, kernel-infonce,
kernel-moco). With one source, a fifth of each class is kept for the test, always the same fifth for the same --seed.

Examples:
  eigenview evaluate runs/photos 'photos/?labelled=yes'
  eigenview evaluate runs/cifar cifar10:data/cifar --test 'cifar10:data/cifar?split=test' --protocol knn linear
  eigenview evaluate runs/photos 'photos/?labelled=yes' --protocol few-label --json
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from eigenview.cli.output import Output
from eigenview.cli.parse import POSITIONAL, parse
from eigenview.errors import DataError

if TYPE_CHECKING:
    from eigenview.data import Source


@dataclass(frozen=True)
class Options:
    run: Annotated[Path, POSITIONAL, tyro.conf.arg(metavar="RUN")]
    """a run directory"""
    source: Annotated[str, POSITIONAL, tyro.conf.arg(metavar="SOURCE")]
    """labelled images: to learn from, and to be tested on unless --test says on which"""
    test: Annotated[str | None, tyro.conf.arg(metavar="SOURCE")] = None
    """labelled images for the test"""
    protocol: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ("knn", "linear")
    """what to measure"""
    baselines: bool = True
    """measure raw pixels and the untrained encoder too"""
    layers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ("pooled",)
    """of the encoder; projection is the output of the run's head"""
    supervised: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """a run trained on labels (--method supervised), as one more baseline"""
    test_share: float = 0.2
    """of each class, where no test source is given"""
    cache: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """keep features here, to be used again"""
    seed: int = 0
    json: bool = False
    """print the scores as JSON"""


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="evaluate", about=__doc__)
    from eigenview.cli.scores_table import score_as_json, show_scores
    from eigenview.evaluation import evaluate_run
    from eigenview.evaluation.evaluate import find_evaluation

    if not (options.run / "config.json").is_file():
        raise DataError(f"{options.run} is no run directory (it has no config.json)")
    for name in options.protocol:
        find_evaluation(name)  # refused before any work is done
    output = Output(as_json=options.json)
    scores = evaluate_run(
        options.run,
        {"": _sources(options, output)},
        protocols=options.protocol,
        layers=options.layers,
        supervised=options.supervised,
        baselines=("untrained", "raw pixels") if options.baselines else (),
        cache=options.cache,
        seed=options.seed,
    )
    output.result([score_as_json(score) for score in scores])
    if not options.json:
        show_scores(scores, output)
        output.say(f"kept in {options.run / 'evaluation'}; see them with: eigenview report {options.run}")


def _sources(options: Options, output: Output) -> tuple[Source, Source]:
    from eigenview.cli.sources import open_labelled, split_by_class

    train = open_labelled(options.source)
    if options.test is not None:
        return train, open_labelled(options.test)
    train, test = split_by_class(train, share=options.test_share, seed=options.seed)
    output.say(
        f"one source: of each class {options.test_share:.0%} are for the test (seed {options.seed}): "
        f"{len(train):,} images to learn from, {len(test):,} to test on"
    )
    return train, test
