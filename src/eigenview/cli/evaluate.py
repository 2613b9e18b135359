"""How good a run's features are on labelled images, next to raw pixels and the same encoder untrained.

Every score is printed as it is known and kept in RUN/evaluation, for compare and report. Protocols: knn, linear,
few-label, kmeans, spectral-clustering, retrieval; the papers' probes on fixed features (probe-moco) and on new views in
every epoch (view-probe-moco), of moco, spectral, simclr-cifar, swav, simsiam, random-walk, wang-isola, kernel-infonce
and kernel-moco; finetune (from 1 %, 10 % and all labels) and finetune-swav (the paper's, from 1 % and 10 %); depth.
With one source, a fifth of each class is kept for the test, always the same fifth for the same --seed. Of a run that
learnt from captions also captions (recall both ways, on images with captions) and zero-shot (the names of the classes
in prompts), each by itself.

Examples:
  eigenview evaluate runs/photos 'photos/?labelled=yes'
  eigenview evaluate runs/cifar cifar10:data/cifar --test 'cifar10:data/cifar?split=test' --protocol knn linear
  eigenview evaluate runs/photos 'photos/?labelled=yes' --protocol few-label --json
  eigenview evaluate runs/photos --set 'birds=birds/?labelled=yes' 'cars=train.parquet,test.parquet'
  eigenview evaluate runs/stl stl10/train.parquet --folds folds --protocol linear
  eigenview evaluate runs/captions captions-test.parquet --protocol captions
  eigenview evaluate runs/captions 'birds/?labelled=yes' --protocol zero-shot --templates 'a photo of a {}, a bird'
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with, say_wait, seconds_an_image, vectors_folder
from eigenview.errors import SettingError

if TYPE_CHECKING:
    from eigenview.runs import Score


class Options(RunOptions):
    run: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name, or vectors as
    # .parquet, .npy or .npz
    source: Annotated[str | None, positional("[SOURCE]")] = None  # labelled images: to learn from, and to be tested on
    # unless --test says on which; may be left out with --set
    test: Annotated[str | None, Word("SOURCE")] = None  # labelled images for the test
    protocol: Annotated[tuple[str, ...], Word("NAME ...")] = ("knn", "linear")  # what to measure
    sets: Annotated[tuple[str, ...], Word("NAME=TRAIN[,TEST] ...", name="set", holds_commas=True)] = ()  # more data
    # sets, to see how far the features carry
    folds: Annotated[str | None, Word("COLUMN")] = None  # of SOURCE, a Parquet table, which lists the folds of each
    # row: learn from each fold, test on the rest
    templates: Annotated[tuple[str, ...], Word("'a photo of a {}' ...|FILE", holds_commas=True)] = ()  # prompts of
    # zero-shot in the place of the seven usual ones, or a file with one in each line
    baselines: bool = True  # measure raw pixels and the untrained encoder too
    layers: Annotated[tuple[str, ...], Word("NAME ...")] = ("pooled",)  # of the encoder; projection is what the run's
    # head gives
    supervised: Annotated[Path | None, Word("RUN")] = None  # a run trained on labels (--method supervised), as one
    # more baseline
    test_share: float = Field(0.2, gt=0, lt=1)  # of each class, where no test source is given
    cache: Annotated[Path | None, Word("DIR")] = None  # keep features here, to be used again
    seed: int = Field(0, ge=0)  # of all that is drawn
    as_json: AsJson = False  # print the scores as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.cli.scores_table import line_of, score_as_json, show_scores
    from eigenview.evaluation import are_by_words
    from eigenview.runs import RunDirectory

    beside = (options.test, options.sets, options.folds, options.source is None)
    by_words = are_by_words(options.protocol, templates=options.templates, beside=beside)
    if options.run.suffix in VECTORS and not by_words:
        folder, scored = _measured_vectors(options, output)
    else:
        folder, scored = _measured(options, output, by_words=by_words)
    scores = []
    for score in scored:
        output.say(line_of(score))
        scores.append(score)
    output.result([score_as_json(score) for score in scores])
    if not options.as_json:
        show_scores(scores, output)
        kept = RunDirectory(folder).score_folder.folder
        output.say(f"kept in {kept}; see them with: eigenview report {folder}")


def _measured_vectors(options: Options, output: Output) -> tuple[Path, Iterator[Score]]:
    from eigenview.evaluation import Measuring, open_labelled
    from eigenview.search import evaluate_vectors, open_embeddings

    if options.sets or options.folds or options.layers != ("pooled",) or options.supervised:
        raise SettingError("a file of vectors is measured on SOURCE and --test; leave the other options out")
    directory = vectors_folder(options, options.run, options.source)
    train, test = (None if spec is None else open_labelled(spec) for spec in (options.source, options.test))
    return directory.folder, evaluate_vectors(
        open_embeddings(options.run),
        directory,
        train,
        test,
        protocols=options.protocol,
        test_share=options.test_share,
        name=Path((options.source or str(options.run)).partition("?")[0]).name,
        measuring=Measuring(seed=options.seed),
        told=output.say,
    )


def _measured(options: Options, output: Output, *, by_words: bool) -> tuple[Path, Iterator[Score]]:
    from eigenview.data import open_source
    from eigenview.evaluation import BASELINES, Measuring, evaluate_run, open_tasks, word_scores

    sets, how = dict(map(_parts_of, options.sets)), Measuring(cache=options.cache, seed=options.seed)
    if len(sets) < len(options.sets):
        raise SettingError(f"sets are told apart by their names; got {', '.join(options.sets)}: name one otherwise")
    train = next(iter(sets.values()), (None,))[0] if options.source is None else options.source
    opening = None if train is None else cache(partial(open_source, train))
    run = open_with(options, options.run, output, train, opening)
    if by_words and options.source is not None:
        scores = word_scores(run, options.protocol, options.source, templates=options.templates, measuring=how)
        return run.folder, scores
    tasks = open_tasks(
        options.source,
        options.test,
        sets={name: pair if pair[1] else pair[0] for name, pair in sets.items()},
        folds=options.folds,
        test_share=options.test_share,
        seed=options.seed,
        protocols=options.protocol,
        opened=None if opening is None else opening(),
        told=output.say,
    )
    others = None if options.supervised is None else open_with(options, options.supervised, output)
    if options.cache is None or not options.cache.exists():
        images = sum(len(task.train) + (len(task.test) if task.test is not task.train else 0) for task in tasks)
        encoders = 1 + options.baselines + (others is not None)
        what = f"features of {images:,} images by {encoders} encoders (then the protocols)"
        say_wait(output, what, images * encoders * seconds_an_image(run, tasks[0].train))
    return run.folder, evaluate_run(
        run,
        tasks,
        protocols=options.protocol,
        layers=options.layers,
        supervised=others,
        baselines=tuple(BASELINES) if options.baselines else (),
        measuring=how,
    )


def _parts_of(words: str) -> tuple[str, tuple[str, str]]:
    """``NAME=TRAIN,TEST`` in its parts; the last may be empty."""
    name, equals, specs = words.partition("=")
    train, comma, test = specs.partition(",")
    if not (name and equals and train) or (comma and not test):
        raise SettingError(f"--set is NAME=TRAIN or NAME=TRAIN,TEST; got {words!r}")
    return name, (train, test)
