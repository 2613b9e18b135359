"""Classification by words alone (Radford et al. 2021): an image belongs to the class whose name describes it best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.batches import PROJECTION
from eigenview.batches.identity import data_identity, weights_identity
from eigenview.data import Source, open_images, subset
from eigenview.distributed import rank
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.caption_retrieval import caption_scores
from eigenview.evaluation.evaluating import PROTOCOLS, was_trained_on
from eigenview.evaluation.scores import Origin, mean_score
from eigenview.evaluation.subjects import Measuring, Subject
from eigenview.files import JSON, read_text
from eigenview.names import Table, printable
from eigenview.nn import TextTower
from eigenview.runs import SEEN, OpenedRun, Score

TEMPLATES = (
    "a photo of a {}",
    "a picture of a {}",
    "a {} in a photo",
    "a close up of a {}",
    "there is a {}",
    "a small {}",
    "a large {}",
)


def read_templates(given: Sequence[str]) -> tuple[str, ...]:
    """Prompts with the class's place as {}; a file is read, one in each line."""
    templates: list[str] = []
    for words in given:
        is_file = "{}" not in words and Path(words).is_file()
        templates += filter(None, map(str.strip, read_text(Path(words)).splitlines())) if is_file else [words]
    for template in templates:
        if template.count("{}") != 1:
            raise SettingError(f"a prompt has the class's place as {{}}, once: 'a photo of a {{}}'; got {template!r}")
    if not templates:
        raise SettingError("no prompt was given; 'a photo of a {}' is the usual one")
    return tuple(templates)


@torch.no_grad()
def class_vectors(tower: TextTower, classes: Sequence[str], templates: Sequence[str] = TEMPLATES) -> Tensor:
    """(classes, d): of each the mean over all prompts of unit vectors, on the sphere again (the ensemble)."""
    templates = read_templates(templates)
    words = [name.replace("_", " ").replace("-", " ") for name in classes]
    prompts = [template.replace("{}", word) for word in words for template in templates]
    return normalize(tower.embed(prompts).view(len(words), len(templates), -1).mean(dim=1), dim=1)


def zero_shot_scores(
    run: OpenedRun,
    source: Source,
    *,
    templates: Sequence[str] = TEMPLATES,
    name: str = "",
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """The accuracy of a run that learnt from captions on labelled images it has no labels of; kept in the run."""
    how = measuring or Measuring()
    if source.classes is None:
        raise DataError(f"{printable(source.describe().place)} has no names of classes, and words need them")
    classes, tower = source.classes, run.needed_text()
    if source.labels is not None:
        source = subset(source, np.flatnonzero(np.asarray(source.labels) >= 0))
    subject = Subject.of_run(run, with_head=True)
    features = subject.features(source, [PROJECTION], how)
    vectors = class_vectors(tower, classes, templates)
    predicted = (normalize(features[PROJECTION], dim=1) @ vectors.T).argmax(dim=1)
    data: dict[str, JSON] = {
        "test": data_identity(source, features.labelled),
        **({"set": name} if name else {}),
        **({SEEN: True} if was_trained_on(run, source) else {}),
    }
    score = mean_score(
        (predicted == features.labelled).double(),
        Origin(subject.name, data, weights_identity(run.encoder, run.needed_head(), tower), how.seed),
        name="zero-shot",
        metric="accuracy",
        protocol={"layer": PROJECTION, "templates": list(templates), "classes": list(classes)},
    )
    if rank(how.group) == 0:
        run.directory.save_score(score)
    yield score


WORD_PROTOCOLS: Table[Callable[..., Iterator[Score]]] = Table(  # of runs that learnt from captions, each by itself
    "protocol", {"captions": caption_scores, "zero-shot": zero_shot_scores}
)
EVERY_PROTOCOL: Table[object] = Table("protocol", {**PROTOCOLS, **WORD_PROTOCOLS})


def word_scores(
    run: OpenedRun,
    protocols: Sequence[str],
    source: str | Path | Source,
    *,
    templates: Sequence[str] = (),
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """The scores of the one of ``WORD_PROTOCOLS`` that is asked for; ``templates`` or files of them for zero-shot."""
    if len(protocols) > 1:
        raise SettingError(f"{protocols[0]} is measured by itself; got {', '.join(protocols)}")
    if templates and protocols[0] != "zero-shot":
        raise SettingError(f"templates are prompts of zero-shot; {protocols[0]} has none")
    more = {"templates": read_templates(templates)} if templates else {}
    run.needed_text()
    name = "" if isinstance(source, Source) else Path(str(source).partition("?")[0]).name
    images = source if isinstance(source, Source) else open_images(source, needs_index=True)
    return WORD_PROTOCOLS.find(protocols[0])(run, images, name=name, measuring=measuring, **more)
