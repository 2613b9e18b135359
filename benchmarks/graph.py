"""Parts that everything stands on, beside their peers: Sinkhorn, k-means and exact search.

    .venv-peers/bin/python benchmarks/graph.py --json graph.json
    .venv-peers/bin/python benchmarks/graph.py --quick             # small sizes, one round: does it run

float32, two threads, every contender the same work, rounds that take turns; the best round of each counts.
Sinkhorn: three iterations on 2,048 × 3,000 scores, ε = 0.05: POT's log-domain solver, and SwAV's three lines.
k-means: 50,000 × 128 rows on the sphere, 100 clusters, ten iterations, from the same start: faiss (spherical) and
scikit-learn (Lloyd on the same unit rows). Search: the ten nearest of 1,000 queries among 10,000 to 1,000,000 rows of
128 columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import faiss
import torch
from bars import Bar, best_times, finish
from sklearn.cluster import KMeans
from torch.nn.functional import normalize

from eigenview.graph import sinkhorn, spherical_kmeans
from eigenview.graph.nearest import nearest

EPSILON, STEPS, ITERATIONS, WIDTH, QUERIES, K = 0.05, 3, 10, 128, 1000, 10
Contenders = dict[str, Callable[[], object]]


def unit_rows(count: int, seed: int) -> torch.Tensor:
    return normalize(torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed)), dim=1)


def transport(rows: int, columns: int) -> Contenders:
    scores = unit_rows(rows, 0) @ unit_rows(columns, 1).T
    samples, prototypes = torch.full((rows,), 1 / rows), torch.full((columns,), 1 / columns)

    def of_swav() -> torch.Tensor:
        codes = (scores / EPSILON).exp().T
        codes = codes / codes.sum()
        for _ in range(STEPS):
            codes = codes / codes.sum(dim=1, keepdim=True) / columns
            codes = codes / codes.sum(dim=0, keepdim=True) / rows
        return (codes * rows).T

    def of_pot() -> object:
        import ot

        return ot.sinkhorn(
            samples, prototypes, -scores, EPSILON, method="sinkhorn_log", numItermax=STEPS, stopThr=0.0, warn=False
        )

    assert torch.allclose(sinkhorn(scores, epsilon=EPSILON, iterations=STEPS), of_swav(), atol=1e-5)
    return {
        "ours": lambda: sinkhorn(scores, epsilon=EPSILON, iterations=STEPS),
        "SwAV's formula": of_swav,
        "POT": of_pot,
    }


def clustering(rows: int, clusters: int) -> Contenders:
    points, start = unit_rows(rows, 2), unit_rows(clusters, 3)
    array, centres = points.numpy(), start.numpy()

    def of_faiss() -> None:
        means = faiss.Kmeans(WIDTH, clusters, niter=ITERATIONS, spherical=True, max_points_per_centroid=rows)
        means.train(array, init_centroids=centres)
        means.index.search(array, 1)

    def of_sklearn() -> None:
        KMeans(clusters, init=centres, n_init=1, max_iter=ITERATIONS, tol=0.0, algorithm="lloyd", random_state=0).fit(
            array
        )

    return {
        "ours": lambda: spherical_kmeans(points, clusters, iterations=ITERATIONS, start=start),
        "faiss": of_faiss,
        "scikit-learn": of_sklearn,
    }


def search(rows: int) -> Contenders:
    bank, queries = unit_rows(rows, 4), unit_rows(QUERIES, 5)
    index = faiss.IndexFlatIP(WIDTH)
    index.add(bank.numpy())
    same = nearest(bank, queries, k=K).index == torch.from_numpy(index.search(queries.numpy(), K)[1])
    assert same.float().mean() > 0.999  # but for ties in the last digit
    return {
        "ours": lambda: nearest(bank, queries, k=K),
        "bare product and top-k": lambda: (queries @ bank.T).topk(K, dim=1) if rows <= 100_000 else None,
        "faiss": lambda: index.search(queries.numpy(), K),
    }


def measured(
    name: str, contenders: Contenders, rounds: int, peers: dict[str, float]
) -> tuple[list[Bar], dict[str, float]]:
    """Times of all, printed; a bar for each of ``peers``: how many times as long it takes, and at least so many."""
    times = best_times(contenders, rounds)
    print(f"{name}: " + ", ".join(f"{who} {1000 * seconds:.1f} ms" for who, seconds in times.items()), flush=True)
    bars = [
        Bar(f"{name}-faster-than-{peer}".replace(" ", "-"), times[peer] / times["ours"], least, at_most=False)
        for peer, least in peers.items()
    ]
    return bars, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round; figures mean little")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    divisor, rounds = (20, 1) if options.quick else (1, options.rounds)
    sets = {
        "sinkhorn": (lambda: transport(2048 // divisor, 3000 // divisor), {"SwAV's formula": 1.0, "POT": 1.0}),
        "k-means": (lambda: clustering(50_000 // divisor, 100 // divisor), {"faiss": 1.0, "scikit-learn": 1.0}),
    } | {
        f"nearest-of-{rows}": (lambda rows=rows: search(rows), {"faiss": 1.0})
        for rows in (10_000 // divisor, 100_000 // divisor, 1_000_000 // divisor)
    }
    bars, figures = [], {}
    for name, (contenders, peers) in sets.items():
        own, figures[name] = measured(name, contenders(), rounds, peers)
        bars += own
    finish(bars, figures, options.json)


if __name__ == "__main__":
    main()
