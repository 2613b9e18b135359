"""The smallest eigenpairs of a large symmetric matrix, repeated eigenvalues included."""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

Array = NDArray[np.float64]

DENSE_SIZE = 1000  # nodes up to which a full eigensolver is as quick as an iterative one
RESTARTS = 300  # of the Lanczos iteration, before a factorisation is tried


def smallest_eigenpairs(matrix: Array | sparse.csr_array, count: int) -> tuple[Array, Array]:
    """The smallest eigenpairs of a symmetric positive matrix, ascending.

    Dense solver when small. Otherwise Lanczos without a factorisation, quick on graphs of neighbours; graphs on which
    it is too slow (long paths) factorise well, so they go to shift-invert.
    """
    size = matrix.shape[0]
    if size > DENSE_SIZE and 4 * count < size:
        try:
            return _lanczos(matrix, count)
        except ArpackNoConvergence:
            if not isinstance(matrix, np.ndarray):
                shift = -1e-5 * matrix.diagonal().mean()  # a zero shift would factorise a singular matrix
                return _ascending(*eigsh(matrix.tocsc(), k=count, sigma=shift, which="LM", v0=_start(size, 0)))
    full = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    values, vectors = linalg.eigh(full, subset_by_index=[0, count - 1])
    return values, vectors


def _lanczos(matrix: Array | sparse.csr_array, count: int) -> tuple[Array, Array]:
    """Largest eigenpairs of b·I − L, b a bound on the spectrum, with a search for the copies Lanczos can miss.

    One starting vector may see a repeated eigenvalue too few times. So what was found is deflated to 0 and the largest
    remaining eigenvalue sought: while it beats the worst one found, it takes its place.
    """
    size, bound = matrix.shape[0], 2 * float(matrix.diagonal().max())

    def largest(deflated: Array, moved: Array, k: int, seed: int) -> tuple[Array, Array]:
        def apply(x: Array) -> Array:
            return np.asarray(bound * x - matrix @ x - deflated @ (moved * (deflated.T @ x)))

        operator = LinearOperator((size, size), dtype=np.float64, matvec=apply)
        width = min(size, max(2 * k + 1, 40))
        top, vectors = eigsh(operator, k=k, which="LA", v0=_start(size, seed), ncv=width, maxiter=RESTARTS)
        return _ascending(bound - top, vectors)

    values, vectors = largest(np.zeros((size, 0)), np.zeros(0), count, 0)
    for attempt in range(1, size):  # another start each time: the first has no part in what it missed
        further, vector = largest(vectors, bound - values, 1, attempt)
        if further[0] >= values[-1] - 1e-10 * bound:
            break
        values, vectors = _ascending(np.append(values[:-1], further), np.column_stack([vectors[:, :-1], vector]))
    return values, vectors


def _ascending(values: Array, vectors: Array) -> tuple[Array, Array]:
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _start(size: int, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, size)  # fixed, so that results repeat
