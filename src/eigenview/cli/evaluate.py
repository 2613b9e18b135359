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

from pathlib import Path
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, parse, positional
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    run: Annotated[Path, positional("RUN")]  # a run directory
    source: Annotated[str, positional("SOURCE")]  # labelled images: to learn from, and to be tested on unless --test
    # says on which
    test: Annotated[str | None, Word("SOURCE")] = None  # labelled images for the test
    protocol: Annotated[tuple[str, ...], Word("NAME ...")] = ("knn", "linear")  # what to measure
    baselines: bool = True  # measure raw pixels and the untrained encoder too
    layers: Annotated[tuple[str, ...], Word("NAME ...")] = ("pooled",)  # of the encoder; projection is what the run's
    # head gives
    supervised: Annotated[Path | None, Word("RUN")] = None  # a run trained on labels (--method supervised), as one
    # more baseline
    test_share: float = Field(0.2, gt=0, lt=1)  # of each class, where no test source is given
    cache: Annotated[Path | None, Word("DIR")] = None  # keep features here, to be used again
    seed: int = Field(0, ge=0)  # of all that is drawn
    as_json: AsJson = False  # print the scores as JSON


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="evaluate", about=__doc__)
    from eigenview.cli.scores_table import score_as_json, show_scores
    from eigenview.evaluation import BASELINES, PROTOCOLS, Measuring, evaluate_run, open_task
    from eigenview.runs import open_run

    for name in options.protocol:
        PROTOCOLS.find(name)  # refused before any work is done
    run = open_run(options.run)
    output = Output(as_json=options.as_json)
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
    if not options.as_json:
        show_scores(scores, output)
        output.say(f"kept in {options.run / 'evaluation'}; see them with: eigenview report {options.run}")
