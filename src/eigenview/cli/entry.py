"""From the words on the command line to a verb; and from what goes wrong to one line and an exit code.

0: done. 1: a bug, with its traceback. 2: a user's mistake, in one line. 130: Ctrl-C. 141: nobody reads on.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import TextIOWrapper

from eigenview.errors import EigenviewError, SettingError
from eigenview.names import Table, did_you_mean, named_code, printable

KEPT = "the scores that were printed are kept in RUN/evaluation"
ANSWERED = "every answer is kept, and the same command goes on from there"
GOES_ON = "what was done is kept, and the same command goes on from there"
MISTAKE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. A user's own code runs only if these very words name it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr) if arguments is None else ():
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal lacks is spelled
    try:
        with named_code(*code_among(given)):
            _run(given)
        sys.stdout.flush()
    except EigenviewError as error:
        if "eigenview.runs.lock" in sys.modules:
            sys.modules["eigenview.runs.lock"].remove_unused()
        return _say(str(error), MISTAKE)
    except KeyboardInterrupt as stop:
        name, _ = find_verb(given)  # it was found before, or nothing could have been stopped
        return _say(str(stop) or f"{name} was stopped; {VERBS[name].when_stopped}", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush goes nowhere
        return CLOSED_PIPE
    except OSError as error:
        if error.filename is None:  # not about a file that the user named
            raise
        return _say(f"{error.filename}: {error.strerror}", MISTAKE)
    return 0


def _say(message: str, code: int) -> int:
    print(f"eigenview: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code


def _run(given: list[str]) -> None:
    if not given or given[0] in ("-h", "--help", "help"):
        print(overview())
        return
    if given[0] in ("-V", "--version"):
        from eigenview import __version__

        print(f"eigenview {__version__}")
        return
    name, rest = find_verb(given)
    module = import_module(f"eigenview.cli.{VERBS[name].module}")
    from eigenview.cli.options import parse
    from eigenview.cli.output import Output

    read = getattr(module, "read", partial(parse, module.Options))
    options = read(rest, verb=name, about=module.__doc__)
    module.run(options, Output(as_json=getattr(options, "as_json", False)))


def find_verb(given: Sequence[str]) -> tuple[str, list[str]]:
    """The verb that the words begin with, and the words after it."""
    for count in (2, 1):
        name = " ".join(given[:count])
        if name in VERBS:
            return name, list(given[count:])
    first, second = given[0], given[1] if len(given) > 1 else ""
    below = {name.split()[1]: name for name in VERBS if name.startswith(f"{first} ")}
    if below and (not second or second.startswith("-")):
        return BARE[first], list(given[1:])
    if below:
        return Table(f"the word after {first}", below).find(second), list(given[2:])
    known = list(dict.fromkeys(name.split()[0] for name in VERBS))
    meant = did_you_mean(first, known) or f"; the verbs are {', '.join(known)}"
    raise SettingError(f"no verb is called {first!r}{meant} (eigenview --help tells more)")


def code_among(given: Sequence[str]) -> Iterator[str]:
    """The words, values after ``=`` and between commas, that may name code of a user's own or a library's encoder."""
    return (piece for word in given for piece in (word, *re.split("[=,]", word)) if ":" in piece)
