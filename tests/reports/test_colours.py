"""A method looks the same in every run and in every format."""

from __future__ import annotations

import re
from pathlib import Path

import headtool
from headtool.methods import method_names
from headtool.reports.colours import DASHES, HUES, look_of
from headtool.reports.formats.style import line_style

CSS = Path(headtool.__file__).parent.parent / "reports/formats/assets/report.css"


def test_methods_differ_and_none_depends_on_the_run() -> None:
    looks = {name: look_of(name) for name in method_names() if name != "random"}
    assert len(set(looks.values())) == len(looks)
    assert look_of("mine") not in looks.values()
    assert look_of("mine") != look_of("yours")


def test_page_and_figures_have_the_same_colours() -> None:
    css = CSS.read_text(encoding="utf-8")
    light = css[: css.index("@media")]
    assert tuple(re.findall(r"--m\d: (#[0-9a-f]{6})", light)) == tuple(h.lower() for h in HUES)
    drawn = dict(re.findall(r"\.k(\d) \.line \{ stroke-dasharray: ([^;]+);", css))
    assert drawn == {str(i): dash for i, dash in enumerate(DASHES) if dash}
    assert line_style(look_of("confidence"))["color"] == HUES[3]


def test_roles_have_colours_of_their_own() -> None:
    light = CSS.read_text(encoding="utf-8").split("@media")[0]
    roles = re.findall(r"--r\d: (#[0-9a-f]{6})", light)
    assert len(roles) == 8
    assert not set(roles) & {hue.lower() for hue in HUES}
