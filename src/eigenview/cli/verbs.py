"""Which verbs there are: a verb is a module of this folder, imported when it is called.

It has ``Options``, or its own way to ``read(arguments, verb=…, about=…)`` them, and ``run(options, output)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from eigenview.names import Table

KEPT = "the scores that were printed are kept in RUN/evaluation"
ANSWERED = "every answer is kept, and the same command goes on from there"
GOES_ON = "what was done is kept, and the same command goes on from there"


@dataclass(frozen=True)
class Verb:
    """``module`` in ``eigenview.cli``, what the verb does in a few words, and what Ctrl-C leaves of it."""

    module: str
    summary: str
    when_stopped: str = "nothing was changed"


GROUPS: dict[str, dict[str, Verb]] = {
    "Look": {
        "look": Verb("look", "a folder without training: map, groups, copies, odd ones out, on one page", GOES_ON),
    },
    "Learn": {
        "train": Verb("train", "learn from images, no labels needed"),
        "sweep": Verb("sweep", "many runs with other settings each: find those that get furthest", GOES_ON),
        "recipes list": Verb("recipes_list", "the published experiments"),
        "recipes show": Verb("recipes_show", "one of them: command, cost, published result"),
        "recipes run": Verb("recipes_run", "train as one of them says"),
    },
    "Judge": {
        "diagnose": Verb("diagnose", "is a run or a file of embeddings healthy; no labels needed"),
        "evaluate": Verb("evaluate", "scores against raw pixels and an untrained encoder, on labelled images", KEPT),
        "compare": Verb("compare", "the scores of several runs, with significance"),
        "report": Verb("report", "one web page about one or more runs"),
    },
    "Use": {
        "embed": Verb("embed", "a vector for every image, as Parquet or .npy", GOES_ON),
        "neighbours": Verb("neighbours", "the images most like a picture, on a contact sheet", GOES_ON),
        "duplicates": Verb("duplicates", "copies of one picture", GOES_ON),
        "export": Verb("export", "the encoder as safetensors, ONNX, for torchvision or timm"),
    },
    "Label": {
        "label": Verb("label", "a page in the browser: a few pictures by hand, the rest by what is alike", ANSWERED),
        "clusters": Verb("clusters", "groups without labels, how many there are, typical pictures of each", GOES_ON),
        "choose": Verb("choose", "which pictures to label: a few that stand for all", GOES_ON),
        "spread": Verb("spread", "the labels of all pictures from a few, with probabilities", GOES_ON),
        "predict": Verb("predict", "the labels of later pictures, by what spread kept", GOES_ON),
        "audit": Verb("audit", "labels that are probably wrong, odd ones out, copies, leaks into another set", GOES_ON),
    },
    "Check": {
        "data check": Verb("data_check", "open every image of a source and say what is there"),
        "views show": Verb("views_show", "a picture of the views that training would see"),
        "lab list": Verb("lab_list", "the spectral laboratory: the papers' claims"),
        "lab run": Verb("lab_run", "put one of them to the test"),
    },
}
VERBS: Table[Verb] = Table("verb", {name: verb for group in GROUPS.values() for name, verb in group.items()})
BARE = {"recipes": "recipes list", "lab": "lab list", "data": "data check", "views": "views show"}  # one word is enough


def overview() -> str:
    """What ``eigenview --help`` prints."""
    width = max(map(len, VERBS)) + 2
    lines = [
        "usage: eigenview VERB [ARGUMENTS] [--help]",
        "",
        "Representations from unlabelled images, and how good they are.",
    ]
    for title, verbs in GROUPS.items():
        lines += ["", title, *(f"  {name:<{width}}{verb.summary}" for name, verb in verbs.items())]
    lines += [
        "",
        "A folder of your own, from start to finish:",
        "  eigenview look photos/",
        "  eigenview train photos/ --minutes 10 --out runs/photos",
        "  eigenview report runs/photos",
        "  eigenview neighbours runs/photos photos/one.jpg --source photos/",
        "",
        "eigenview VERB --help tells more about each, with examples.",
    ]
    return "\n".join(lines)
