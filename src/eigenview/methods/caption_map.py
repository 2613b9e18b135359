"""Fixed vectors of captions for soft targets: TF-IDF, then a singular value decomposition (Deerwester et al. 1990).

Or those of a text encoder that is given.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.names import own_code
from eigenview.nn import Tokenizer
from eigenview.nn.text import by_length, library_text, library_tokens, text_library

GivenVectors = Callable[[Sequence[str]], Tensor]

WIDTH = 128  # of the vectors
MOST = 100_000  # captions that are looked at


def caption_map(captions: Iterable[str], tokenizer: Tokenizer, *, width: int = WIDTH) -> Tensor:
    """(vocabulary, width): each token's inverse document frequency times its place in the leading directions.

    The sum over a caption's tokens, on the sphere, is its vector (:func:`caption_vectors`). The padding's is 0.
    """
    from scipy import sparse
    from sklearn.decomposition import TruncatedSVD

    texts = sorted({text for text, _ in zip(captions, range(MOST), strict=False)})
    if len(texts) < 2:
        raise DataError("soft targets compare captions, and all captions here are the same")
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


def given_vectors(name: str) -> GivenVectors:
    """Texts → vectors (n, p) of length 1 without gradient, by the text encoder called ``name``.

    ``hf:NAME_OR_FOLDER``, ``open_clip:NAME/TAG``, or ``module:attribute`` of a user's own that does just that.
    """
    if not text_library(name):
        own = own_code(name, kind="target encoder")
        if not callable(own):
            raise SettingError(f"{name} must turn a list of texts into vectors (n, p); got {type(own).__name__}")
        return lambda texts: _checked(own(list(texts)), len(texts), name)
    tokenizer = library_tokens(name)
    encoder = library_text(name, tokenizer, pretrained=True).eval()
    return torch.no_grad()(lambda texts: normalize(by_length(encoder, tokenizer(texts)).float(), dim=1))


def _checked(rows: object, count: int, name: str) -> Tensor:
    if not isinstance(rows, Tensor) or rows.ndim != 2 or len(rows) != count:
        shape = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise ShapeError(f"{name} must give a tensor ({count}, p) for {count} texts; got {shape}")
    return normalize(rows.detach().float(), dim=1)
