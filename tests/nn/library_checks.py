"""What is compared with other libraries: pixels, features, refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from eigenview.data import FolderSource
from eigenview.errors import EigenviewError
from eigenview.nn import load_encoder
from eigenview.nn.inputs import InputSpec
from eigenview.views import CentreView


def ours(photos: FolderSource, number: int, seen: InputSpec) -> Tensor:
    crop = (seen.interpolation, seen.is_squashed, seen.rounds_down)
    view = CentreView(seen.resize, seen.size, seen.mean, seen.std, *crop, is_exact=True)
    (pixels,) = view.prepare(photos.image(number), 0, 0)
    return view.finish([torch.from_numpy(pixels).permute(2, 0, 1)[None]])[0]


def grey_levels_apart(
    photos: FolderSource, seen: InputSpec | None, transform: Callable[[Image.Image], Tensor]
) -> float:
    """The largest difference to a library's own transform, in levels of 0 … 255."""
    assert seen is not None
    worst = 0.0
    for number in range(len(photos)):
        theirs = transform(Image.open(photos.path(number)).convert("RGB"))
        mine = ours(photos, number, seen)
        assert mine.shape == theirs.shape
        worst = max(worst, float(((mine - theirs).abs() * torch.tensor(seen.std)[:, None, None]).max()) * 255)
    return worst


def stirred(model: nn.Module) -> nn.Module:
    """Random weights in which every name matters: no norm, bias or statistic is still at its plain start."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                noise = 0.1 * torch.randn(tensor.shape, generator=generator)
                tensor.add_(noise.abs() if name.endswith("running_var") else noise)
    return model.eval()


def noise(size: int) -> Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


def assert_same(mine: Tensor, theirs: Tensor) -> None:
    """To 1e-5 of the largest."""
    assert mine.shape == theirs.shape
    assert float((mine - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


def refuses(name: str, reason: str, **options: object) -> None:
    with pytest.raises(EigenviewError) as caught:
        load_encoder(name, **options)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
