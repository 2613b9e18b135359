"""The peer of the race and of a step: lightly's SimCLR as its documentation builds it (lightly, torchvision)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from PIL import Image
from torch import nn

from eigenview.nn import SmallEncoder

BATCH, RATE = 256, 1e-3


class Pictures(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """uint8 images (n, 32, 32, 3), seen through its transform for small images."""

    def __init__(self, images: np.ndarray) -> None:
        from lightly.transforms import SimCLRTransform

        self.images, self.transform = images, SimCLRTransform(input_size=32, gaussian_blur=0.0)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[list[torch.Tensor], int]:
        return self.transform(Image.fromarray(self.images[index])), 0


class LightlySimCLR:
    """Its transform, a DataLoader with two workers, its head and loss, AdamW with a cosine."""

    def __init__(self, images: np.ndarray, *, small: bool) -> None:
        import torchvision
        from lightly.models.modules import SimCLRProjectionHead

        if small:
            self.encoder: nn.Module = SmallEncoder()
            width = 256
        else:
            layers = list(torchvision.models.resnet18().children())[:-1]
            self.encoder, width = nn.Sequential(*layers, nn.Flatten()), 512
        self.model = nn.Sequential(self.encoder, SimCLRProjectionHead(width, width, 128))
        self.loader = torch.utils.data.DataLoader(
            Pictures(images), batch_size=BATCH, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True
        )

    def steps(self, share: Callable[[], float]) -> Iterator[int]:
        """Train for ever; after each step, how many views were seen. ``share`` of the training that is over."""
        from lightly.loss import NTXentLoss

        criterion, optimizer = NTXentLoss(), torch.optim.AdamW(self.model.parameters(), RATE)
        seen = 0
        while True:
            for batch in self.loader:
                for group in optimizer.param_groups:
                    group["lr"] = RATE * 0.5 * (1 + np.cos(np.pi * min(1.0, share())))
                first, second = batch[0]
                loss = criterion(self.model(first), self.model(second))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                seen += 2 * len(first)
                yield seen
