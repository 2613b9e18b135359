from __future__ import annotations

from pathlib import Path

from eigenview import data


def test_no_exported_name_hides_a_module_of_the_room():
    modules = {path.stem for path in Path(data.__file__).parent.glob("*.py")}
    assert modules.isdisjoint(data.__all__)
    assert set(data.__all__) <= set(vars(data))
