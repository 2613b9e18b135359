"""Versions: what is promised, what is pinned and what the tools are told agree."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OPTIONAL = PROJECT["project"]["optional-dependencies"]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINNED = dict(line.split("==") for line in LINES if not line.startswith("#"))


def direct(*extras: str) -> list[Requirement]:
    """The requirements of pyproject.toml with those of extras, and of extras within extras."""
    given = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
    waiting = list(extras)
    while waiting:
        for needed in map(Requirement, OPTIONAL[waiting.pop()]):
            if needed.name == PROJECT["project"]["name"]:
                waiting.extend(needed.extras)
            else:
                given.append(needed)
    return given


def installed_with(needed: list[Requirement]) -> dict[str, str]:
    """Every package that these need, and those need, with the version that is installed here."""
    versions: dict[str, str] = {}
    waiting = [(item.name, frozenset(item.extras)) for item in needed]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        package = metadata.distribution(name)
        versions[canonicalize_name(name)] = package.version.split("+")[0]  # a build's own label is no version
        for item in map(Requirement, package.requires or []):
            wanted = any(item.marker.evaluate({"extra": extra}) for extra in ["", *extras]) if item.marker else True
            if wanted:
                waiting.append((item.name, frozenset(item.extras)))
    return versions


def test_every_package_that_setup_installs_is_pinned():
    """Held in the environment that ``make setup`` makes: another one has other versions, and other needs."""
    if metadata.version("torch").split("+")[0] != PINNED["torch"]:
        pytest.skip("not the pinned environment")
    versions = installed_with(direct("dev"))
    assert {name: version for name, version in versions.items() if PINNED.get(name) != version} == {}
    assert len(versions) > 80
    assert [line for line in LINES if "/" in line and not line.startswith("#")] == []  # no place of a machine


def test_pins_lie_within_what_is_promised():
    pins = {needed.name: PINNED[canonicalize_name(needed.name)] for needed in direct("dev")}
    assert [needed for needed in direct("dev") if not needed.specifier.contains(pins[needed.name])] == []


def test_each_dependency_has_its_lowest_version_and_a_bound():
    for needed in direct("all", "faiss"):
        kinds = {clause.operator for clause in needed.specifier}
        assert ">=" in kinds, needed
        assert "<" in kinds, needed


def test_the_lowest_python_is_the_same_everywhere():
    (lowest,) = re.findall(r">=(3\.\d+)", PROJECT["project"]["requires-python"])
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + lowest.replace(".", "")
    assert PROJECT["tool"]["mypy"]["python_version"] == lowest
    for name in ("README.md", "Makefile"):
        said = re.findall(r"Python (3\.\d+) or newer", (ROOT / name).read_text(encoding="utf-8"))
        assert said == [lowest], name
