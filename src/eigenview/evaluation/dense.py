"""Depth from frozen feature maps: a small decoder, mean squared error.

Wang & Isola's second table (2020) decodes depth from conv5 or conv4 of their encoder on NYU-Depth-v2; their decoder was
not published. This is our reconstruction: comparable among encoders here, not with their figures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, mse_loss

from eigenview.batches import Extractor, encode_source, evaluating
from eigenview.batches.identity import DIGITS, images_identity
from eigenview.data import Source
from eigenview.data.order import Plan
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation.scores import TRAINING_MEAN, Origin, mean_score
from eigenview.evaluation.subjects import Measuring, Subject, Task
from eigenview.files import JSON
from eigenview.nn import POOLED, Encoder
from eigenview.optim import ParameterGroup, build_optimizer, build_schedule, set_learning_rate
from eigenview.progress import progress_bar
from eigenview.runs import Score
from eigenview.views import CentreView
from eigenview.views.photos import Photo, Pixels, pillow_resize

ROWS = 64  # images encoded at a time


@dataclass(frozen=True)
class DepthProtocol:
    """What is trained on the frozen maps. Images are cut by ``border``, squeezed to ``size`` and normalised."""

    layer: str = "conv5"
    size: int = 64  # pixels of the square the encoder sees
    border: int = 0  # pixels cut off each side first; NYU-Depth-v2 frames have a white rim
    output: int = 64  # pixels of the predicted square; depth is averaged down to it
    width: int = 128  # channels of the decoder
    epochs: int = 50
    batch_size: int = 64
    learning_rate: float = 1e-3
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)


class DepthDecoder(nn.Module):
    """1 × 1 convolution, then twice as large and a 3 × 3 convolution until ``size`` is reached, then one channel."""

    def __init__(self, channels: int, side: int, *, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 1), nn.ReLU()]
        while side < size:
            side *= 2
            layers += [nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)]
            layers += [nn.Conv2d(width, max(16, width // 2), 3, padding=1), nn.ReLU()]
            width = max(16, width // 2)
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, maps: Tensor) -> Tensor:
        """(n, c, h, w) → (n, 1, size, size)."""
        depth: Tensor = self.layers(maps)
        if depth.shape[2:] == (self.size, self.size):
            return depth
        return interpolate(depth, size=(self.size, self.size), mode="bilinear", align_corners=False)


@dataclass(frozen=True)
class DepthResult:
    """Squared errors of depth in the data's unit (metres), and what the training mean alone would give."""

    errors: Tensor  # (n,) mean squared error of each test image
    mean_errors: Tensor  # (n,) of predicting the mean training depth of every position


def predict_depth(
    encoder: Encoder,
    train: Source,
    test: Source,
    *,
    protocol: DepthProtocol | None = None,
    seed: int = 0,
    shows_progress: bool = True,
) -> DepthResult:
    """Train a decoder on the frozen maps of ``train``, measure it on ``test``; both need images and depth of one size.

    The encoder is in eval mode throughout and its maps are computed once. Depth is standardised by the training part.
    """
    protocol = protocol if protocol is not None else DepthProtocol()
    (maps, depth), (test_maps, test_depth) = (
        _read(encoder, source, protocol, shows_progress) for source in (train, test)
    )
    centre, spread = depth.mean(dim=0, keepdim=True), depth.std()
    if not spread > 0:
        raise DataError("depth is the same everywhere in training; there is nothing to learn")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = DepthDecoder(maps.shape[1], maps.shape[2], size=protocol.output, width=protocol.width)
    _fit(decoder, maps, (depth - centre) / spread, protocol, seed, shows_progress)
    decoder.eval()
    with torch.no_grad():
        predicted = torch.cat([decoder(test_maps[start : start + ROWS]) for start in range(0, len(test_maps), ROWS)])
    errors = (predicted * spread + centre - test_depth).square().mean(dim=(1, 2, 3))
    return DepthResult(errors.double(), (centre - test_depth).square().mean(dim=(1, 2, 3)).double())


def depth_scores(
    subject: Subject,
    task: Task,
    how: Measuring,
    *,
    layers: Sequence[str] | None = None,
    protocol: DepthProtocol | None = None,
) -> Iterator[Score]:
    """Mean squared error of depth from each layer, one score a layer, lower is better; items are test images.

    The subject's view normalises the images. ``layers``: the last two with positions unless given. The score of
    predicting the training mean of every position comes last: no representation should be worse.
    """
    given = replace(protocol or DepthProtocol(), mean=subject.view.mean, std=subject.view.std)
    data: dict[str, JSON] = {"train": _identity(task.train), "test": _identity(task.test)}
    if task.name:
        data["set"] = task.name
    means = None
    for layer in layers if layers is not None else _deepest_maps(subject.encoder):
        way = replace(given, layer=layer)
        result = predict_depth(
            subject.encoder, task.train, task.test, protocol=way, seed=how.seed, shows_progress=how.is_shown
        )
        settings = {name: value for name, value in asdict(way).items() if name not in ("mean", "std")}
        yield _error(result.errors, subject.origin(data, how), layer, settings)
        means = result.mean_errors
    if means is not None:
        settings = {"border": given.border, "output": given.output}
        yield _error(means, Origin(TRAINING_MEAN, data, seed=how.seed), "mean", settings)


def _error(items: Tensor, origin: Origin, layer: str, protocol: Mapping[str, JSON]) -> Score:
    score = mean_score(items, origin, name=f"depth {layer}", metric="mse", protocol=protocol)
    return replace(score, higher_is_better=False, is_share=False)


def _deepest_maps(encoder: Encoder) -> list[str]:
    """The last two stages with positions: conv4 and conv5 in Wang & Isola's encoder."""
    names = [name for name, _ in encoder.steps() if name != POOLED]
    images = torch.zeros(1, encoder.channels, DepthProtocol().size, DepthProtocol().size)
    with evaluating(encoder):
        maps = encoder.features(images.to(next(encoder.parameters(), images).device), names) if names else {}
    return [name for name in names if maps[name].ndim == 4][-2:]


def _identity(source: Source) -> str:
    """Which images with which depths."""
    digest = hashlib.sha256()
    for item in range(len(source)):
        depth = source.depth(item)
        if depth is not None:
            digest.update(np.ascontiguousarray(depth).data)
    return f"{len(source)} of {images_identity(source)}/{digest.hexdigest()[:DIGITS]}"


def _fit(
    decoder: DepthDecoder, maps: Tensor, wanted: Tensor, protocol: DepthProtocol, seed: int, shows_progress: bool
) -> None:
    group = ParameterGroup("decoder", tuple(decoder.parameters()), protocol.learning_rate, 0.0)
    optimizer = build_optimizer("adam", [group])
    plan = Plan(len(maps), min(protocol.batch_size, len(maps)), seed)
    schedule = build_schedule("cosine", total=protocol.epochs * plan.steps)
    step = 0
    decoder.train()
    with progress_bar("depth", total=protocol.epochs, shown=shows_progress) as advance:
        for epoch in range(protocol.epochs):
            order = plan.order(epoch)
            for number in range(plan.steps):
                index = torch.from_numpy(plan.global_batch(order, number))
                set_learning_rate(optimizer, schedule(step))
                optimizer.zero_grad()
                mse_loss(decoder(maps[index]), wanted[index]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                step += 1
            advance(1)


def _read(encoder: Encoder, source: Source, protocol: DepthProtocol, shows_progress: bool) -> tuple[Tensor, Tensor]:
    """Frozen maps (n, c, h, w) and depth (n, 1, output, output) of every readable image."""
    if not source.describe().has_depth:
        raise DataError("these images have no depth; give a source with a depth column")
    extractor, title = Extractor(encoder, (protocol.layer,), maps="keep"), "features" if shows_progress else None
    rows = encode_source(extractor, source, _Inside.of(protocol), title=title)
    maps = rows.layers[protocol.layer][0]
    if maps.ndim != 4:
        raise SettingError(f"layer {protocol.layer!r} has no positions to decode depth from; pick a convolution")
    return maps, torch.stack([_depth(source, item, protocol) for item in rows.index.tolist()])


@dataclass(frozen=True, repr=False)
class _Inside(CentreView):
    """The whole image but for its border, squeezed into a square."""

    border: int = 0

    @classmethod
    def of(cls, protocol: DepthProtocol) -> _Inside:
        size, mean, std = protocol.size, protocol.mean, protocol.std
        return cls(size, size, mean, std, is_squashed=True, is_exact=True, border=protocol.border)

    def __call__(self, images: Tensor) -> Tensor:
        return super().__call__(_inside(images, self.border))

    def prepare(self, photo: Photo, epoch: int, index: int) -> tuple[Pixels]:
        pixels = _inside(torch.from_numpy(photo.pixels().transpose(2, 0, 1)), self.border).permute(1, 2, 0)
        return (pillow_resize(np.ascontiguousarray(pixels.numpy()), self.size, self.size, self.interpolation),)


def _depth(source: Source, item: int, protocol: DepthProtocol) -> Tensor:
    """(1, output, output), averaged down from the item's depth."""
    depth = source.depth(item)
    if depth is None or not np.isfinite(depth).all():
        raise DataError(f"item {item} has no depth, or one that is not finite; leave it out")
    inside, size = _inside(torch.from_numpy(np.ascontiguousarray(depth))[None], protocol.border), protocol.output
    return interpolate(inside[None], size=(size, size), mode="bilinear", align_corners=False, antialias=True)[0]


def _inside(images: Tensor, border: int) -> Tensor:
    """(…, h, w) without so many pixels at each edge."""
    height, width = images.shape[-2:]
    if min(height, width) <= 2 * border:
        raise ShapeError(f"a border of {border} pixels leaves nothing of {(height, width)}")
    return images[..., border : height - border, border : width - border]
