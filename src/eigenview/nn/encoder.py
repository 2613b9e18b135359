"""What every encoder offers: pooled features, and intermediate ones by name."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from eigenview.errors import SettingError, ShapeError
from eigenview.names import did_you_mean

POOLED = "pooled"  # on every encoder: what its forward returns

Step = tuple[str, Callable[[Tensor], Tensor]]


class Encoder(nn.Module, ABC):
    """Images (n, channels, height, width) → pooled features (n, ``feature_width``).

    A subclass gives ``steps``: named stages that run one after the other. ``forward`` stops at the one named
    ``pooled``; what may follow it is for :meth:`features` alone. ``aliases`` are other names for the same stages.
    """

    feature_width: int
    channels: int
    aliases: Mapping[str, str] = {}

    @abstractmethod
    def steps(self) -> list[Step]:
        """The named stages, in order."""

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names that :meth:`features` knows, in the order of computation; aliases last."""
        return (*(name for name, _ in self.steps()), *self.aliases)

    def forward(self, images: Tensor) -> Tensor:
        self._check(images)
        for name, step in self.steps():
            images = step(images)
            if name == POOLED:
                break
        return images

    def features(self, images: Tensor, layers: Sequence[str] = (POOLED,)) -> dict[str, Tensor]:
        """Features by layer name; stages after the last one asked for do not run."""
        check_layers(layers, self.layer_names)
        self._check(images)
        wanted = {self.aliases.get(name, name) for name in layers}
        features: dict[str, Tensor] = {}
        for name, step in self.steps():
            images = step(images)
            if name in wanted:
                features[name] = images
            if len(features) == len(wanted):
                break
        return {name: features[self.aliases.get(name, name)] for name in layers}

    def _check(self, images: Tensor) -> None:
        if images.ndim != 4 or images.shape[1] != self.channels or not images.is_floating_point():
            raise ShapeError(
                f"this encoder takes floating images (n, {self.channels}, height, width); "
                f"got {tuple(images.shape)}, {images.dtype}"
            )


def check_layers(layers: Sequence[str], known: Sequence[str]) -> None:
    """Refuse an empty choice, a bare string, and names that the encoder does not have."""
    if isinstance(layers, str):
        raise SettingError(f"layers must be a list of names; got the string {layers!r}: write [{layers!r}]")
    unknown = [name for name in layers if name not in known]
    if unknown or not layers:
        got = f"no layer {', '.join(map(repr, unknown))} in this encoder" if unknown else "no layer was asked for"
        meant = did_you_mean(unknown[0], known) if unknown else ""
        raise SettingError(f"{got}; it has {', '.join(known)}{meant}")


def global_average(maps: Tensor) -> Tensor:
    """(n, c, h, w) → (n, c), the mean over positions."""
    return maps.mean(dim=(2, 3))


def scaled_width(base: int, width: float, *, multiple: int = 8) -> int:
    """``base · width`` channels, to the nearest multiple of 8 so that any number of groups divides them."""
    if not 0 < width < float("inf"):
        raise SettingError(f"width must be a positive multiplier; got {width}")
    return max(multiple, multiple * round(base * width / multiple))


@torch.no_grad()
def start_convolutions(module: nn.Module) -> None:
    """He et al.'s start: convolutions N(0, 2/fan_out), normalisation the identity."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, (nn.modules.batchnorm._BatchNorm, nn.GroupNorm)) and layer.affine:
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
