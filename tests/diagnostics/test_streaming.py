"""What does not fit in memory: 200,000 × 64 embeddings on disk, diagnosed by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
import json, resource, sys, torch
torch.set_num_threads(2)
from eigenview.diagnostics import diagnose, Sampling
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = diagnose(sys.argv[1], sys.argv[2], sampling=Sampling(anchors=512))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([before, after, json.loads(found.to_json())]))
"""


def written(path: Path, *, n: int, d: int) -> tuple[Path, Path]:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((n, d), dtype=np.float32)
    np.save(path / "a.npy", rows)
    np.save(path / "b.npy", rows + 0.3 * generator.standard_normal((n, d), dtype=np.float32))
    return path / "a.npy", path / "b.npy"


@pytest.mark.slow
def test_files_are_diagnosed_in_blocks_without_growing_by_their_size(tmp_path):
    files = written(tmp_path, n=200_000, d=64)
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, files)], capture_output=True, text=True, check=True, timeout=600
    )
    before, after, measured = json.loads(answer.stdout)
    rows = np.load(files[0]).astype(np.float64)
    np.testing.assert_allclose(measured["figures"]["variances"], rows.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(measured["figures"]["singular_values"], np.linalg.svd(rows, compute_uv=False), rtol=1e-9)
    assert measured["verdict"] == "healthy"
    assert (after - before) * 1024 < 400e6  # a few blocks; as float64 the two files alone would be 205 MB
