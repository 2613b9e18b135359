"""Suggested and suspicious labels on the page: as they were kept, whatever their names hold."""

from __future__ import annotations

import base64
from pathlib import Path

from eigenview.report import write_report
from eigenview.runs.contents import ShownGroup, ShownLabels, ShownPicture, write_shown_labels
from tests.report.example_run import write_run

PICTURE = base64.b64encode(b"\xff\xd8 no picture, but its bytes").decode()
NAME = "<img src=x onerror=alert(1)>/a.jpg"


def test_labels_are_shown_with_their_pictures_and_no_name_is_code(tmp_path: Path):
    run = write_run(tmp_path / "run", items=60)
    before = write_report([run], tmp_path / "before.html").read_text(encoding="utf-8")
    assert "Suspicious labels" not in before
    groups = (ShownGroup("The most doubtful first", (ShownPicture(NAME, "cat → dog 91%", PICTURE),)),)
    write_shown_labels(run, ShownLabels("suspicious", "1 of 9 labels are probably wrong.", groups))
    gone = (ShownGroup("<b>gulls</b>: 3 images", (ShownPicture("b.jpg", "80%", ""),)),)
    write_shown_labels(run, ShownLabels("suggested", "3 of 9 images got a label.", gone))
    page = write_report([run], tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="labels-suspicious"' in page
    assert f"data:image/jpeg;base64,{PICTURE}" in page
    assert "1 of 9 labels are probably wrong." in page
    assert "cat → dog 91%" in page
    assert NAME not in page
    assert "<b>gulls</b>" not in page
    assert "3 of 9 images got a label." in page


def test_a_damaged_file_is_a_line_and_no_picture_is_more_than_one(tmp_path: Path):
    run = write_run(tmp_path / "run", items=60)
    evil = ShownPicture("a.jpg", "", '"><script>alert(1)</script>')
    file = write_shown_labels(run, ShownLabels("outliers", "", (ShownGroup("", (evil,)),)))
    page = write_report([run], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "holds a picture that is none" in page
    assert "alert(1)" not in page
    file.write_text('{"kind": "outliers"', encoding="utf-8")
    assert "outliers.json is not JSON" in write_report([run], tmp_path / "page.html").read_text(encoding="utf-8")
