"""Optional libraries: one that is missing, and one that breaks while it is imported, are each told in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eigenview.errors import SettingError
from eigenview.extras import extra_module, hidden


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


def test_a_hidden_library_is_not_imported_and_is_there_afterwards(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with hidden("slow_to_import"), pytest.raises(ImportError):
        import slow_to_import
    import slow_to_import

    with hidden("slow_to_import"):
        assert sys.modules["slow_to_import"] is slow_to_import


def test_training_imports_neither_plots_nor_statistics():
    code = "import sys, eigenview.training; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ["torchmetrics", "matplotlib", "scipy.stats", "scipy.signal", "plotly", "optuna", "pandas", "sklearn"]
    said = subprocess.run([sys.executable, "-c", code, *heavy], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "[]"
