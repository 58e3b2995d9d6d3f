"""What the card beside a smaller model says."""

from __future__ import annotations

from headtool.reports.formats.card import _with_code


def test_names_of_options_stand_as_code_and_all_else_is_escaped() -> None:
    note = "measure on other data with `data` or `select_data`; <b>, `x y` and ` of a file *name*"
    assert _with_code(note) == (
        r"measure on other data with `data` or `select_data`; \<b\>, \`x y\` and \` of a file "
        r"\*name\*"
    )
