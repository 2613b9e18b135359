"""Optional libraries: one that is missing, and one that breaks while it is imported, are each told in one line."""

from __future__ import annotations

import pytest

from eigenview.errors import SettingError
from eigenview.extras import extra_module


def test_a_missing_library_is_named_with_what_installs_it():
    with pytest.raises(SettingError) as caught:
        extra_module("no_such_library.inner", extra="tables", purpose="reading")
    assert str(caught.value) == (
        "reading needs no_such_library, which is not installed: pip install 'eigenview[tables]'"
    )


def test_a_library_that_breaks_while_it_is_imported_is_no_traceback(tmp_path, monkeypatch):
    (tmp_path / "built_for_another.py").write_text("raise RuntimeError('compiled for NumPy 1\\nand much more')")
    (tmp_path / "lacks_its_own.py").write_text("import no_such_neighbour")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError) as caught:
        extra_module("built_for_another", package="built", purpose="encoder x")
    assert str(caught.value) == (
        "encoder x needs built_for_another, which does not import here (compiled for NumPy 1): pip install built"
    )
    with pytest.raises(SettingError, match=r"does not import here \(No module named 'no_such_neighbour'\)"):
        extra_module("lacks_its_own", extra="onnx", purpose="exporting")
