"""Images with captions: CLIP (Radford et al., 2021), LaCLIP (Fan et al., 2023), LiT (Zhai et al., 2022), SigLIP (2023).

    eigenview recipes run lit-flickr8k --source flickr8k/train.parquet --out runs/lit-flickr8k
    torchrun --nproc-per-node 8 --nnodes 4 -m eigenview recipes run laclip-cc12m --source 'cc12m/*.tar'

The first runs on a CPU in minutes: five captions an image, one drawn a step. LaCLIP's rewrites are captions like
others: a shard's .json or a table's column holds the original first, then the rewrites.
"""

from typing import Any

from eigenview.recipes.recipe import Recipe, Result

HERE = "benchmarks/words.py; three seeds; 95 % intervals over test images"
ONE_SEED = "benchmarks/words.py; one seed; 95 % intervals over test images"
PAPER = "LijieFan/LaCLIP, zero-shot ImageNet"
FLICKR: dict[str, Any] = {
    "source": "flickr8k/train.parquet",
    "test": "flickr8k/test.parquet",
    "images": 6_000,
    "protocol": "captions",
}
CC12M: dict[str, Any] = {
    "source": "cc12m/*.tar",
    "test": "imagenet?split=val",
    "images": 10_900_000,
    "protocol": "zero-shot",
}
LOCKED: dict[str, Any] = {
    "encoder": {"name": "efficientnet-lite0", "locked": True},
    "views": {"preset": "laclip", "size": 160},
    "optimizer": {"name": "adamw", "learning_rate": 1e-3, "weight_decay": 0.2, "warmup_epochs": 1},
    "batch_size": 256,
}
VIT_B: dict[str, Any] = {
    "encoder": {"name": "vit-small", "width": 2.0},
    "views": {"preset": "laclip"},
    "optimizer": {
        "name": "adamw",
        "learning_rate": 1e-3,
        "weight_decay": 0.5,
        "betas": [0.9, 0.98],
        "warmup_epochs": 1,
        "final": 0.01,
    },
    "batch_size": 8192,
    "epochs": 35,
    "precision": "bf16",
}
TEXT = {"width": 512, "depth": 12, "length": 77, "vocabulary": 49_152}
DIFFERS = (
    "the text side sees all tokens and is averaged over them; the authors' is causal and ends in its last",
    "byte pairs are learnt from the captions; the authors take CLIP's",
    "no norm of queries and keys; batches of 8,192 (256 a process) are a guess",
)


def _cc12m(name: str, title: str, weights: list[float], value: str) -> Recipe:
    settings = {"method": "clip", "method_settings": {"text": TEXT, "caption_weights": weights}, **VIT_B}
    results = (Result("zero-shot ImageNet", value, PAPER, "authors' code"),)
    return Recipe(name=name, title=title, **CC12M, settings=settings, results=results, differs=DIFFERS)


def _flickr(name: str, title: str, method: str, steps: int, text: dict[str, int], result: Result, cost: str) -> Recipe:
    settings = {"method": method, "method_settings": {"text": text}, **LOCKED, "steps": steps}
    return Recipe(name=name, title=title, **FLICKR, settings=settings, results=(result,), cost=cost)


RECIPES = (
    _flickr(
        "lit-flickr8k",
        "LaCLIP with a locked EfficientNet-lite0 (LiT), Flickr8k: runs here",
        "clip",
        300,
        {"width": 256, "depth": 1},
        Result("text to image, recall@1/5/10", "13.2/34.6/47.0 [44.8, 49.3]", ONE_SEED, "measured here"),
        "two minutes of one core, after one pass of the encoder over the images",
    ),
    Recipe(
        name="siglip-flickr8k",
        title="SigLIP with a locked EfficientNet-lite0, Flickr8k: runs here",
        **FLICKR,
        settings={
            "method": "siglip",
            "method_settings": {"text": {"width": 128, "depth": 1}, "temperature": 0.05},
            **LOCKED,
            "steps": 150,
        },
        results=(Result("text to image, recall@1/5/10", "6.8/21.6/32.2 [30.3, 34.2]", HERE, "measured here"),),
        differs=("the scale begins at 20 (chosen on validation images), not at 10: batches are of 256",),
        cost="half a minute of one core, after one pass of the encoder over the images",
    ),
    _cc12m("clip-cc12m", "CLIP, CC12M, ViT-B/16, 35 epochs", [1.0, 0.0], "40.2"),
    _cc12m("laclip-cc12m", "LaCLIP, CC12M with four rewrites a caption, ViT-B/16, 35 epochs", [1.0], "48.4"),
)
