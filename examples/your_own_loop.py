"""Eigenview's losses in a training loop of your own: an encoder for scikit-learn's digits, trained without labels.

Run: python examples/your_own_loop.py        (about half a minute on two cores; --quick for a few seconds)
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from eigenview import GaussianKernel, LaplacianKernel, alignment, kernel_info_nce_loss, uniformity


def random_view(images: torch.Tensor) -> torch.Tensor:
    """A small rotation, zoom and shift of each image, with noise."""
    angle, zoom, shift = (scale * torch.randn(len(images), n) for scale, n in ((0.25, 1), (0.15, 1), (0.16, 2)))
    rows = [(1 + zoom) * angle.cos(), -(1 + zoom) * angle.sin(), shift[:, :1]]
    rows += [(1 + zoom) * angle.sin(), (1 + zoom) * angle.cos(), shift[:, 1:]]
    grid = nn.functional.affine_grid(torch.cat(rows, dim=1).view(-1, 2, 3), list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False) + 0.05 * torch.randn_like(images)


torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
train, test, train_labels, test_labels = train_test_split(images, digits.target, test_size=500, random_state=0)

convolution = lambda a, b, stride: (nn.Conv2d(a, b, 3, stride, 1), nn.BatchNorm2d(b), nn.ReLU())  # noqa: E731
encoder = nn.Sequential(*convolution(1, 32, 1), *convolution(32, 64, 2), *convolution(64, 64, 1), nn.Flatten())
head = nn.Sequential(nn.Linear(1024, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))
kernel = GaussianKernel(temperature=0.2) + LaplacianKernel(temperature=0.5)  # any similarity you like
optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()])
epochs, batch_size = (2 if "--quick" in sys.argv else 100), 256
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=epochs * (len(train) // batch_size))

for epoch in range(1, epochs + 1):
    for batch in torch.randperm(len(train)).split(batch_size)[: len(train) // batch_size]:
        a, b = (head(encoder(random_view(train[batch]))) for _ in range(2))
        loss = kernel_info_nce_loss(a, b, kernel=kernel)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    if epoch % 10 == 0 or epochs < 10:
        print(f"epoch {epoch:3d}  loss {loss:.3f}  alignment {alignment(a, b):.3f}  uniformity {uniformity(a):.3f}")
encoder.eval()
with torch.no_grad():
    learned = [nn.functional.normalize(encoder(images)).numpy() for images in (train, test)]
pixels = [images.flatten(1).numpy() for images in (train, test)]
by_class = [np.flatnonzero(train_labels == digit) for digit in range(10)]
for name, (bank, queries) in {"raw pixels": pixels, "Eigenview": learned}.items():
    draws = [np.concatenate([np.random.default_rng(seed).permutation(of)[:5] for of in by_class]) for seed in range(20)]
    scores = [KNeighborsClassifier(1).fit(bank[few], train_labels[few]).score(queries, test_labels) for few in draws]
    print(f"1-NN, 5 labels a class: {name:10s} {100 * np.mean(scores):.1f}% (20 draws, sd {100 * np.std(scores):.1f})")
