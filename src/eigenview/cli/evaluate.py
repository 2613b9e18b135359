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
from typing import Annotated

import tyro

from eigenview.cli.output import Output
from eigenview.cli.parse import POSITIONAL, parse


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
    from eigenview.evaluation import BASELINES, PROTOCOLS, Measuring, evaluate_run, open_task
    from eigenview.runs import open_run

    for name in options.protocol:
        PROTOCOLS.find(name)  # refused before any work is done
    run = open_run(options.run)
    output = Output(as_json=options.json)
    task = open_task(options.source, options.test, test_share=options.test_share, seed=options.seed)
    if options.test is None:
        output.say(
            f"one source: of each class {options.test_share:.0%} are for the test (seed {options.seed}): "
            f"{len(task.train):,} images to learn from, {len(task.test):,} to test on"
        )
    scores = list(
        evaluate_run(
            run,
            [task],
            protocols=options.protocol,
            layers=options.layers,
            supervised=None if options.supervised is None else open_run(options.supervised),
            baselines=tuple(BASELINES) if options.baselines else (),
            measuring=Measuring(cache=options.cache, seed=options.seed),
        )
    )
    output.result([score_as_json(score) for score in scores])
    if not options.json:
        show_scores(scores, output)
        output.say(f"kept in {options.run / 'evaluation'}; see them with: eigenview report {options.run}")
