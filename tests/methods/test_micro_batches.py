"""Every method in micro-batches: the gradients of the whole batch, on one process and on two."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.parallel import DistributedDataParallel

from eigenview.methods import METHODS, MethodContext, ViewedBatch, find_method
from eigenview.nn import Encoder, Tokenizer, build_encoder, synchronise
from eigenview.nn.text import TextTransformer
from tests.processes import run_processes

ITEMS, CLASSES, SIZE = 8, 3, 3
ENCODERS = {"resnet": {"name": "resnet18", "width": 0.125, "normalization": "group"}, "vit": {"name": "vit-tiny"}}
OPTIONS = {
    "swav": {"prototypes": 5, "head_hidden": 16},
    "deepcluster-v2": {"prototypes": (4, 5), "head_hidden": 16},
    "sela-v2": {"prototypes": (4, 5), "head_hidden": 16},
    "moco": {"queue": 16, "symmetric": True},
    "simsiam": {"head_hidden": 16, "head_output": 16, "predictor_hidden": 8},
    "clip": {"text": {"width": 8, "depth": 1}},
    "siglip": {"text": {"width": 8, "depth": 1}},
}
CAPTIONS = tuple((f"number {number} of them", f"the one called {number}") for number in range(ITEMS))


def batch_for(name: str, rows: slice) -> ViewedBatch:
    """Of all methods but moco, crops of two sizes."""
    generator = torch.Generator().manual_seed(1)
    crops = ((2, 16),) if name == "moco" else ((2, 16), (3, 8))
    groups = tuple(
        torch.randn(count, ITEMS, 3, side, side, dtype=torch.float64, generator=generator)[:, rows].flatten(0, 1)
        for count, side in crops
    )
    index = torch.arange(ITEMS)
    return ViewedBatch(groups, len(index[rows]), index[rows], (index % CLASSES)[rows], 0, 0, CAPTIONS[rows])


def step(name: str, encoder: str, size: int | None, *, rank: int = 0, group=None) -> tuple[dict, dict, int]:
    """Gradients and buffers after a step, and how often gradients were averaged over processes."""
    torch.manual_seed(0)
    rows = slice(None) if group is None else (slice(0, 5), slice(5, None))[rank]  # unevenly
    network = build_encoder(image_size=16, **ENCODERS[encoder])
    kind = find_method(name)
    views = (2,) if name == "moco" else (2, 3)
    tokens = Tokenizer.trained([text for texts in CAPTIONS for text in texts], vocabulary=300).reading(8)
    context = MethodContext(ITEMS, CLASSES, views, steps_per_epoch=1, tokenizer=tokens, group=group, micro_batch=size)
    method = kind(network, kind.settings_type(**OPTIONS.get(name, {})), context).double().train()
    batch, averaged = batch_for(name, rows), []
    method.start_epoch(0, lambda: iter([batch]))
    if group is None:
        method(batch).loss.backward()
    else:
        synchronise(method, group, but_not_in=(Encoder,))
        wrapped = DistributedDataParallel(method, broadcast_buffers=False)
        wrapped.register_comm_hook(None, lambda state, bucket: averaged.append(1) or allreduce_hook(state, bucket))
        wrapped(batch).loss.backward()
    gradients = {key: value.grad for key, value in method.named_parameters() if value.grad is not None}
    return gradients, dict(method.named_buffers()), len(averaged)


def largest_differences(rank: int, group, names: list[str], encoder: str) -> dict[str, tuple[float, int, int]]:
    """By method: the largest difference from the plain step, and how often each averaged gradients."""
    measured = {}
    for name in names:
        plain, micro = (step(name, encoder, size, rank=rank, group=group) for size in (None, SIZE))
        differences = [
            float((state[key].double() - other[key].double()).abs().max())
            for state, other in zip(plain[:2], micro[:2], strict=True)
            for key in state.keys() | other.keys()
        ]
        measured[name] = (max(differences), plain[2], micro[2])
    return measured


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", METHODS)
def test_micro_batches_give_the_whole_batchs_gradients(name, encoder):
    assert largest_differences(0, None, [name], encoder)[name][0] < 1e-10


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_texts_pass_in_micro_batches_too(name):
    passed = []
    hook = register_module_forward_hook(
        lambda module, given, _: passed.append(len(given[0])) if isinstance(module, TextTransformer) else None
    )
    try:
        step(name, "vit", SIZE)
    finally:
        hook.remove()
    assert (sum(passed), max(passed)) == (2 * ITEMS, SIZE)  # once for the loss, once for the gradients


def test_on_two_processes_too_and_gradients_are_averaged_once():
    for measured in run_processes(2, largest_differences, list(METHODS), "resnet", timeout=300):
        assert measured.keys() == METHODS.keys()
        for name, (difference, plain, micro) in measured.items():
            assert difference < 1e-10, name
            assert plain == micro > 0, name
