"""Is the number of clusters right? Planted clusters of many kinds, and the features of data sets whose classes we know.

    python benchmarks/clusters.py --sets 50 --features stl10=stl10.npz cifar10=cifar10.npz

Planted sets differ in number (2 to 30), sizes (equal, or up to eight times as large as others), width (4 to 512),
shape (round, stretched, heavy-tailed), rows (1,000 to 4,000) and overlap: the two nearest centres lie 4 to 8 standard
deviations apart. Those count that k-means recovers when told the number (adjusted Rand index at least 0.8, best of ten
starts). The rule was made on the sets from --first 0, 1000 and 2000 on; those from 5000 on are for the report. Features
are .npz files with x (n, d) and y (n,), of which 5,000 rows are drawn.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bars import Bar, finish
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from eigenview.diagnostics.clusters import clustered_rows
from eigenview.graph.clustering import best_clustering
from eigenview.graph.laplacian import eigengap, neighbour_graph
from eigenview.graph.nearest import nearest

RECOVERED, ROWS, STRAYS = 0.8, 5000, 25
WIDTHS, COUNTS, SHAPES = (4, 8, 16, 32, 64, 128, 512), (1000, 2000, 4000), ("round", "stretched", "heavy")


def planted(seed: int) -> tuple[Tensor, np.ndarray, dict[str, Any]]:
    random = np.random.default_rng(seed)
    clusters, width, count = int(random.integers(2, 31)), int(random.choice(WIDTHS)), int(random.choice(COUNTS))
    is_even = bool(random.random() < 0.5)
    shares = np.ones(clusters) if is_even else np.exp(random.uniform(0, np.log(8), clusters))
    sizes = np.maximum(STRAYS, (count * shares / shares.sum()).astype(int))
    shape = str(random.choice(SHAPES))
    centres = random.normal(size=(clusters, width))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    apart = float(random.uniform(4, 8))
    distance = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 1e9 * np.eye(clusters)
    scale, rows = distance.min() / apart, []
    for centre, size in zip(centres, sizes, strict=True):
        cloud = random.normal(size=(size, width))
        if shape == "stretched":
            cloud *= random.uniform(0.5, 2, size=width)
        if shape == "heavy":
            cloud /= np.sqrt(random.chisquare(5, size=(size, 1)) / 5)
        rows.append(centre + scale * cloud)
    truth = np.repeat(np.arange(clusters), sizes)
    order = random.permutation(len(truth))
    about = {"seed": seed, "clusters": clusters, "width": width, "rows": len(truth), "is_even": is_even}
    return (
        torch.from_numpy(np.concatenate(rows)[order]).float(),
        truth[order],
        {**about, "shape": shape, "apart": round(apart, 1)},
    )


def recovered(rows: Tensor, truth: np.ndarray, clusters: int) -> float:
    """The adjusted Rand index of k-means that is told the number."""
    return float(adjusted_rand_score(truth, best_clustering(rows - rows.mean(dim=0), clusters).assignment.numpy()))


def measured(rows: Tensor, truth: np.ndarray) -> dict[str, Any]:
    start, used = time.perf_counter(), time.process_time()
    count, chosen, member = clustered_rows(rows, nodes=ROWS)
    near = nearest(rows, rows, k=10, excludes_self=True).index.numpy()
    return {
        "counted": count.clusters,
        "certainty": count.certainty,
        "agreement": round(float(count.agreement or 0), 3),
        "ari": round(float(adjusted_rand_score(truth[chosen.numpy()], member.numpy())), 3),
        "seconds": round(time.perf_counter() - start, 2),
        "processor_seconds": round(time.process_time() - used, 2),
        "by_eigengap": eigengap(neighbour_graph(near), most=30).clusters,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=5000, help="seed of the first planted set")
    parser.add_argument("--sets", type=int, default=50, help="that count")
    parser.add_argument("--features", nargs="*", default=[], metavar="NAME=FILE")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: list[dict[str, Any]] = []
    seed = options.first
    while len(results) < options.sets:
        rows, truth, about = planted(seed)
        seed += 1
        told = recovered(rows, truth, about["clusters"])
        if told >= RECOVERED:
            results.append({**about, "told": round(told, 3), **measured(rows, truth)})
            print(
                "right" if results[-1]["counted"] == about["clusters"] else "WRONG", json.dumps(results[-1]), flush=True
            )
    pixels, digits = load_digits(return_X_y=True)
    real = {"digits": measured(torch.from_numpy(pixels).float(), digits)}
    print("digits", json.dumps(real["digits"]), flush=True)
    for named in options.features:
        name, _, file = named.partition("=")
        held = np.load(file)
        drawn = np.random.default_rng(0).permutation(len(held["y"]))[:ROWS]
        real[name] = measured(torch.from_numpy(held["x"][drawn].astype(np.float32)), held["y"][drawn])
        print(name, json.dumps(real[name]), flush=True)
    right = sum(result["counted"] == result["clusters"] for result in results)
    before = sum(result["by_eigengap"] == result["clusters"] for result in results)
    clear = [result for result in results if result["certainty"] == "clear"]
    sure = sum(result["counted"] == result["clusters"] for result in clear)
    print(f"{right} of {len(results)} right ({sure} of the {len(clear)} called clear); by the eigengap {before}")
    bar = Bar("planted-sets-counted-right", right, round(0.9 * len(results)), at_most=False)
    finish([bar], {"planted": results, "real": real, "tried": seed - options.first}, options.json)


if __name__ == "__main__":
    main()
