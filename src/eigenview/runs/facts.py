"""What a run says about its data, its machine and its method, so that everything after training needs nothing else."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field

from eigenview.batches.identity import sketch
from eigenview.data import Source, StreamSource
from eigenview.nn.inputs import EncoderFacts
from eigenview.nn.settings import EncoderSettings
from eigenview.views import CentreView, Recipe, centre_view, recipe_from_json, recipe_to_json
from eigenview.views.settings import Shape


class Stored(BaseModel):
    """What is stored is read leniently: fields of other versions are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ImageFacts(Stored):
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    channels: int = Field(ge=1)


class SourceFacts(Stored):
    """``SourceInfo`` as it was when the run began."""

    kind: str = ""
    place: str = ""
    count: int | None = None
    classes: tuple[str, ...] | None = None
    is_labelled: bool = False


class DataFacts(Stored):
    """``data.json``: the source, the shape of its first image, the resolved views."""

    source: SourceFacts = SourceFacts()
    image: ImageFacts
    recipe: dict[str, Any]  # recipe_to_json
    fingerprint: str | None = None  # of the source, to tell whether it changed
    sketch: str = ""  # of its images, to tell whether others are among them

    @property
    def views(self) -> Recipe:
        return recipe_from_json(self.recipe)

    @property
    def view(self) -> CentreView:
        """The evaluation view that fits how the run was trained."""
        return centre_view(self.views, side=min(self.image.height, self.image.width))


class EncoderRecord(Stored):
    """``encoder.json``: which encoder a run began with, where its weights come from, and how its images must look."""

    settings: EncoderSettings
    channels: int = Field(3, ge=1)
    library: str = ""  # with its version
    weights: str = "random"  # or what they are called
    digest: str = ""  # SHA-256 of their file
    view: CentreView | None = None  # None of vectors that were made elsewhere
    source: str = ""  # the images it was opened for

    @classmethod
    def of(
        cls, settings: EncoderSettings, channels: int, facts: EncoderFacts, view: CentreView, *, source: str = ""
    ) -> EncoderRecord:
        """Of what was loaded."""
        return cls(settings=settings, channels=channels, view=view, source=source, **vars(facts))


class EnvironmentFacts(Stored):
    """``environment.json``: versions and machine."""

    eigenview: str = ""
    torch: str = ""
    python: str = ""
    platform: str = ""
    device: str = ""
    processes: int = 1
    threads: int | None = None
    cores: int | None = None


def data_facts(source: Source | StreamSource, recipe: Recipe, shape: Shape, fingerprint: str | None) -> DataFacts:
    info = source.describe()
    height, width, channels = shape
    return DataFacts(
        source=SourceFacts(**vars(info)),
        image=ImageFacts(height=height, width=width, channels=channels),
        recipe=recipe_to_json(recipe),
        fingerprint=fingerprint,
        sketch=sketch(source) if isinstance(source, Source) else "",
    )


def environment_facts(device: torch.device, processes: int) -> EnvironmentFacts:
    from eigenview import __version__

    return EnvironmentFacts(
        eigenview=__version__,
        torch=torch.__version__,
        python=sys.version.split()[0],
        platform=platform.platform(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        processes=processes,
        threads=torch.get_num_threads(),
        cores=os.cpu_count(),
    )
