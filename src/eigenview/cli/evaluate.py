"""How good a run's features are on labelled images, next to raw pixels and the same encoder untrained.

Every score is printed as it is known and kept in RUN/evaluation, for compare and report. Protocols: knn, linear,
few-label, kmeans, spectral-clustering, retrieval; the papers' probes on fixed features (probe-moco) and on new views in
every epoch (view-probe-moco), of moco, spectral, simclr-cifar, swav, simsiam, random-walk, wang-isola, kernel-infonce
and kernel-moco; finetune (from 1 %, 10 % and all labels); depth. With one source, a fifth of each class is kept for the
test, always the same fifth for the same --seed. Of a run that learnt from captions also captions (recall both ways, on
images with captions) and zero-shot (the names of the classes in prompts), each by itself.

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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with, say_wait, seconds_an_image, vectors_folder
from eigenview.errors import SettingError

if TYPE_CHECKING:
    from eigenview.evaluation import Folds, Task
    from eigenview.runs import OpenedRun, Score


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
    from eigenview.evaluation import EVERY_PROTOCOL, WORD_PROTOCOLS

    for name in options.protocol:  # refused before any work is done
        EVERY_PROTOCOL.find(name)
    by_words = [name for name in options.protocol if name in WORD_PROTOCOLS]
    if options.templates and "zero-shot" not in by_words:
        raise SettingError("templates are prompts of zero-shot: give --protocol zero-shot with them")
    scores = []
    if by_words:
        folder, scored = _measured_by_words(options, output)
    elif options.run.suffix in VECTORS:
        folder, scored = _measured_vectors(options, output)
    else:
        first = options.source or next((words.partition("=")[2].partition(",")[0] for words in options.sets), None)
        measured = open_with(options, options.run, output, first)
        folder, scored = measured.folder, _measured(options, measured, output)
    for score in scored:
        output.say(line_of(score))
        scores.append(score)
    output.result([score_as_json(score) for score in scores])
    if not options.as_json:
        show_scores(scores, output)
        output.say(f"kept in {folder / 'evaluation'}; see them with: eigenview report {folder}")


def _measured_by_words(options: Options, output: Output) -> tuple[Path, Iterator[Score]]:
    from eigenview.evaluation import Measuring, word_scores

    if len(options.protocol) > 1 or options.test or options.sets or options.folds or options.source is None:
        raise SettingError(f"{options.protocol[0]} is measured by itself, on one SOURCE; leave the other options out")
    run = open_with(options, options.run, output, options.source)
    how = Measuring(cache=options.cache, seed=options.seed)
    return run.folder, word_scores(run, options.protocol, options.source, templates=options.templates, measuring=how)


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


def _measured(options: Options, run: OpenedRun, output: Output) -> Iterator[Score]:
    from eigenview.evaluation import BASELINES, Measuring, evaluate_run

    tasks: list[Task | Folds] = [*_tasks(options, output)]
    others = None if options.supervised is None else open_with(options, options.supervised, output)
    if options.cache is None or not options.cache.exists():
        images = sum(len(task.train) + (len(task.test) if task.test is not task.train else 0) for task in tasks)
        encoders = 1 + options.baselines + (others is not None)
        what = f"features of {images:,} images by {encoders} encoders (then the protocols)"
        say_wait(output, what, images * encoders * seconds_an_image(run, tasks[0].train))
    return evaluate_run(
        run,
        tasks,
        protocols=options.protocol,
        layers=options.layers,
        supervised=others,
        baselines=tuple(BASELINES) if options.baselines else (),
        measuring=Measuring(cache=options.cache, seed=options.seed),
    )


def _tasks(options: Options, output: Output) -> Iterator[Task | Folds]:
    from eigenview.evaluation import open_folds, open_task

    if options.folds is not None:
        if options.source is None or options.test is not None or options.sets:
            raise SettingError("--folds belongs to one SOURCE, a Parquet table, without --test and --set")
        yield open_folds(options.source, column=options.folds)
        return
    given: list[tuple[str | None, str, str | None]] = []
    if options.source is not None:
        given.append((None, options.source, options.test))
    for words in options.sets:
        name, equals, specs = words.partition("=")
        train, comma, test = specs.partition(",")
        if not (name and equals and train) or (comma and not test):
            raise SettingError(f"--set is NAME=TRAIN or NAME=TRAIN,TEST; got {words!r}")
        given.append((name, train, test or None))
    if not given:
        raise SettingError("SOURCE is missing: labelled images, such as 'photos/?labelled=yes'; or give --set")
    for called, train, against in given:
        task = open_task(
            train,
            against,
            test_share=options.test_share,
            seed=options.seed,
            name=called,
            protocols=options.protocol,
        )
        if against is None:
            output.say(
                f"{task.name}, one source: of each class {options.test_share:.0%} are for the test (seed "
                f"{options.seed}): {len(task.train):,} images to learn from, {len(task.test):,} to test on"
            )
        yield task
