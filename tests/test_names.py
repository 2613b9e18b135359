"""Names: safe to print, found or explained; and a user's own code, imported only where this very call names it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eigenview.errors import SettingError
from eigenview.names import Table, did_you_mean, is_code, is_named, named_code, own_code, printable

TABLE = Table("fruit", {"apple": 1, "Pear": 2, "plum": 3})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 name", "plain ü 漢 name"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("two\nlines\r\ttab", r"two\nlines\r\ttab"),
        ("\x9b2J", r"\x9b2J"),  # an escape code of one byte
        ("right\u202eto left", r"right\u202eto left"),
        ("null\x00", r"null\x00"),
        (b"latin \xe9".decode("utf-8", "surrogateescape"), r"latin \xe9"),
        ("half a \ud83d pair", r"half a \xed\xa0\xbd pair"),
        (Path("a/\x1bb"), r"a/\x1bb"),
    ],
)
def test_what_is_printed_is_one_line_without_codes(text, shown):
    assert printable(text) == shown
    assert printable(text).isprintable()
    printable(text).encode("utf-8")  # whatever it held, it can be written


def test_a_close_word_is_suggested_as_it_is_spelt():
    assert did_you_mean("aple", TABLE) == "; did you mean apple?"
    assert did_you_mean("PEAR", TABLE) == "; did you mean Pear?"
    assert did_you_mean("stone", TABLE) == ""
    assert did_you_mean("x", []) == ""


def test_a_table_is_an_ordered_mapping_that_explains_a_miss():
    assert list(TABLE) == ["apple", "Pear", "plum"]
    assert (len(TABLE), TABLE["plum"], TABLE.find("Pear"), "plum" in TABLE) == (3, 3, 2, True)
    with pytest.raises(
        SettingError, match=r"^'pllum' is no fruit; did you mean plum\? It must be one of apple, Pear, plum$"
    ):
        TABLE.find("pllum")
    with pytest.raises(SettingError, match=r"^fruit must be one of apple or your own; got 'nut'$"):
        Table("fruit", {"apple": 1}, more=" or your own").find("nut")
    with pytest.raises(SettingError, match=r"^fruit must be one of those that `list` names; got 'nut'$"):
        Table("fruit", {"apple": 1}, listed_by="list").find("nut")


def test_a_table_does_not_change_with_what_it_was_made_of():
    entries = {"apple": 1}
    table = Table("fruit", entries)
    entries["nut"] = 2
    assert list(table) == ["apple"]


@pytest.mark.parametrize("name", ["a:b", "a.b.c:D", "_a:_b", "a1:b2"])
def test_code_has_a_module_and_an_attribute(name):
    assert is_code(name)


@pytest.mark.parametrize(
    "name", ["a", "timm", "https://x", "C:\\photos", "a:b:c", "a:", ":b", "a:b.c", "1a:b", "a:b\n", ""]
)
def test_nothing_else_is_code(name):
    assert not is_code(name)


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    """A module of a user's own in the working directory, which notes that it was imported."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath('imported').touch()\nThing = 'a thing'\n")
    (tmp_path / f"broken_{name}.py").write_text("import no_such_module_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    return name


def test_code_is_imported_only_where_this_call_names_it(module, tmp_path):
    with pytest.raises(SettingError, match=f"method {module}:Thing is code .* only if this very call names it"):
        own_code(f"{module}:Thing", kind="method")
    with named_code("other:Thing", None, "no code"), pytest.raises(SettingError, match="only if this very call"):
        own_code(f"{module}:Thing", kind="method")
    assert not (tmp_path / "imported").exists()
    with named_code(f"{module}:Thing"):
        assert own_code(f"{module}:Thing", kind="method") == "a thing"
    assert (tmp_path / "imported").exists()
    with pytest.raises(SettingError, match="only if this very call"):
        own_code(f"{module}:Thing", kind="method")


def test_what_an_outer_call_named_stays_named_within():
    with named_code("a:b"):
        with named_code("c:d"):
            assert is_named("a:b")
            assert is_named("c:d")
        assert is_named("a:b")
        assert not is_named("c:d")
        with pytest.raises(KeyError), named_code("e:f"):
            raise KeyError
        assert not is_named("e:f")
    assert not is_named("a:b")


def test_code_is_named_by_what_settings_hold_and_by_a_source_with_options():
    with named_code(
        {"method_settings": {"text": {"name": "a:b"}}, "steps": 3}, ["c:d?count=20&seed=1", ("e:f",)], None
    ):
        assert [name for name in ("a:b", "c:d", "e:f", "method_settings:b") if is_named(name)] == ["a:b", "c:d", "e:f"]


def test_what_is_missing_is_told_in_one_line(module):
    with named_code(f"{module}:Thin", f"no_{module}:Thing", f"broken_{module}:Thing"):
        with pytest.raises(SettingError, match=f"{module} has no Thin; did you mean Thing"):
            own_code(f"{module}:Thin", kind="encoder")
        with pytest.raises(SettingError, match=f"encoder no_{module}:Thing: the module no_{module} cannot be imported"):
            own_code(f"no_{module}:Thing", kind="encoder")
        with pytest.raises(SettingError, match=r"cannot be imported .*no_such_module_at_all"):
            own_code(f"broken_{module}:Thing", kind="encoder")
