"""Fixed vectors of captions for soft targets: TF-IDF, then a singular value decomposition (Deerwester et al. 1990)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.nn import Tokenizer

WIDTH = 128  # of the vectors
MOST = 100_000  # captions that are looked at


def caption_map(captions: Iterable[str], tokenizer: Tokenizer, *, width: int = WIDTH) -> Tensor:
    """(vocabulary, width): each token's inverse document frequency times its place in the leading directions.

    The sum over a caption's tokens, on the sphere, is its vector (:func:`caption_vectors`). The padding's is 0.
    """
    from scipy import sparse
    from sklearn.decomposition import TruncatedSVD

    texts = sorted({text for text, _ in zip(captions, range(MOST), strict=False)})
    batches = (tokenizer(texts[start : start + 4096]) for start in range(0, len(texts), 4096))
    rows = [row[row > 0].numpy() for batch in batches for row in batch]
    ends = np.cumsum([0, *map(len, rows)])
    shape = (len(rows), tokenizer.vocabulary)
    counts = sparse.csr_matrix((np.ones(ends[-1]), np.concatenate(rows), ends), shape=shape)
    counts.sum_duplicates()
    seen = np.bincount(counts.indices, minlength=shape[1])
    rarity = np.log((1 + shape[0]) / (1 + seen)) + 1
    weighted = counts @ sparse.diags(rarity)
    norms = np.asarray(np.sqrt(weighted.multiply(weighted).sum(axis=1))).ravel()
    unit = sparse.diags(1 / np.maximum(norms, 1e-12)) @ weighted
    directions = TruncatedSVD(min(width, *(side - 1 for side in shape)), random_state=0).fit(unit).components_
    table = np.zeros((shape[1], width), dtype=np.float32)
    table[:, : len(directions)] = rarity[:, None] * directions.T
    return torch.from_numpy(table)


def caption_vectors(tokens: Tensor, table: Tensor) -> Tensor:
    """(n, width) of length 1, from tokens (n, l)."""
    return normalize(table[tokens].sum(dim=1), dim=1)
