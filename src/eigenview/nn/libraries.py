"""Models of other libraries: imported with care, fetched within a bounded time, wrong names explained."""

import logging
import os
import socket
import ssl
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from eigenview.errors import EigenviewError, SettingError
from eigenview.extras import extra_module, optional_module
from eigenview.names import did_you_mean, reason_of

WAIT = 8.0  # seconds that a hub has for its first answer
WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # whoever reads a torch file then reads no code from it
PACKAGES = {"open_clip": "open_clip_torch"}  # where pip knows a library by another name


def library(module: str, encoder: str) -> ModuleType:
    """A library that an encoder needs; without it, one line that says what to do."""
    name = module.partition(".")[0]
    with _quiet():
        return extra_module(module, package=PACKAGES.get(name, name), purpose=f"encoder {encoder}")


def check_model(name: str, known: Iterable[str], library: str) -> None:
    """Refuse a name that a library does not have, with the nearest that it has and the call that lists them all."""
    names = list(known)
    if name not in names:
        meant = did_you_mean(name, names) or ";"
        listing = f"{'torchvision.models' if library == 'torchvision' else library}.list_models()"
        raise SettingError(f"{library} has no model {name!r}{meant} {listing} lists them")


@contextmanager
def loading(encoder: str, *, hub: str | None = None) -> Iterator[None]:
    """Within, a library builds and fetches: whatever it raises is one line, and nothing hangs or runs foreign code.

    ``hub`` is the address of the Hugging Face hub if it may be asked: where that does not answer, its library is told
    to make do with its cache instead of trying for most of a minute.
    """
    is_there = hub is None or _answers(hub)
    timeout, forced = socket.getdefaulttimeout(), os.environ.get(WEIGHTS_ONLY)
    constants: Any = None
    was_offline = False
    socket.setdefaulttimeout(WAIT)  # torch's downloads have no limit of their own
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        with _quiet():
            constants = None if is_there else optional_module("huggingface_hub.constants")
            if constants is not None:
                was_offline, constants.HF_HUB_OFFLINE = getattr(constants, "HF_HUB_OFFLINE", False), True
            yield
    except EigenviewError:
        raise
    except urllib.error.URLError as error:
        raise _unreachable(encoder, str(error.reason)) from None
    except Exception as error:  # a library may raise nearly anything
        if not is_there:
            raise _unreachable(encoder, f"{hub} does not answer and nothing is in its cache") from None
        raise SettingError(f"encoder {encoder} cannot be built: {reason_of(error)}") from None
    finally:
        socket.setdefaulttimeout(timeout)
        if forced is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = forced
        if constants is not None:
            constants.HF_HUB_OFFLINE = was_offline


def hugging_face_hub() -> str:
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def _unreachable(encoder: str, why: str) -> SettingError:
    return SettingError(
        f"the weights of {encoder} cannot be fetched ({why}): give a local file (--weights FILE, of train "
        "--encoder.weights FILE) or folder (hf:FOLDER), try again later, or train from random ones "
        "(--encoder.no-pretrained)"
    )


def _answers(hub: str) -> bool:
    """Whether a server is there at all; what it says does not matter."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    try:
        with urllib.request.urlopen(urllib.request.Request(hub, method="HEAD"), timeout=WAIT):
            return True
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # its library may know other certificates
    except OSError:
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Libraries talk about their own affairs; what matters of it is in the error that is raised."""
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
