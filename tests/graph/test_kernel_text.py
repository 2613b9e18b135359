"""Kernels from text: the inverse of repr, and nothing else."""

from __future__ import annotations

import pytest

from eigenview.errors import SettingError
from eigenview.graph.kernel_text import read_kernel
from eigenview.graph.kernels import CosineKernel, GaussianKernel, LaplacianKernel, concatenated
from eigenview.graph.scalars import learnable
from tests import oracle


@pytest.mark.parametrize("name", oracle.KERNELS)
def test_every_repr_reads_back(name):
    written = oracle.KERNELS[name][0]
    assert repr(read_kernel(written)) == written


def test_people_may_write_it_shorter():
    assert read_kernel("Gaussian(0.2)+0.5*Laplacian(0.5)") == GaussianKernel(0.2) + 0.5 * LaplacianKernel(0.5)
    assert read_kernel(" concat(Gaussian(.2), Laplacian(1)) ") == concatenated(GaussianKernel(0.2), LaplacianKernel(1))
    assert repr(read_kernel("Cosine(learnable(0.5), bias=-10)")) == repr(CosineKernel(learnable(0.5), bias=-10))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Gaussian(0.2", "cannot read the kernel"),
        ("gaussian(0.2)", r"is no kernel; did you mean Gaussian\? It must be one of Cauchy, "),
        ("gaussian + 1", "kernels are Cauchy"),
        ("__import__('os').system('true')", "cannot read"),
        ("Gaussian(0.2).__class__", "cannot read"),
        ("Gaussian(0.2) - Laplacian(0.5)", "cannot read"),
        ("0.5", "is not a kernel"),
        ("Gaussian(-1)", "temperature must be positive"),
        ("Gaussian(width=1)", "cannot read the kernel"),
        ("", "cannot read the kernel"),
    ],
)
def test_anything_else_is_refused(text, message):
    with pytest.raises(SettingError, match=message):
        read_kernel(text)
