"""Markdown holds the findings and tables, and shows any text as it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from headtool.reports.contents.run import Contents
from headtool.reports.formats.markdown import escape_markdown, render_markdown
from headtool.reports.wording.text import visible


def rendered(text: str) -> str:
    """HTML of a renderer that allows everything: raw HTML, links, images, tables."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_markdown_holds_findings_tables_and_origin(contents: Contents) -> None:
    text = render_markdown(contents)
    assert text.startswith("# Attention heads of models/sentiment\n")
    html = rendered(text)
    assert "14 are needed, 32 are removable" in html
    assert html.count("<table>") == len(re.findall(r"^\| ---", text, re.MULTILINE))
    assert html.count("<table>") >= 8
    for name in ("All 72 heads", "Areas between curves", "To reproduce", "McNemar (1947)"):
        assert name in html
    row = contents.table("tests").iloc[0]
    assert (
        f'<td>enc-self.0.0</td>\n<td style="text-align:right">{row["delta"]:.4f}'
        in html.replace("−", "-")
    )


def test_every_row_of_a_markdown_table_has_the_columns_of_its_head(contents: Contents) -> None:
    lines = render_markdown(contents).splitlines()
    tables = [line for line in lines if line.startswith("|")]
    width = 0
    for number, line in enumerate(tables):
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        if number + 1 < len(tables) and tables[number + 1].startswith("| ---"):
            width = cells
        assert cells == width, line


def test_hostile_names_stay_text_in_markdown(attacked: Contents) -> None:
    html = rendered(render_markdown(attacked))
    assert not re.findall(r"<(script|img|svg|style|a|iframe|use)\b", html)
    assert "&lt;script&gt;window.pwned=1&lt;/script&gt;" in html


@given(st.text(max_size=60))
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    line = escape_markdown(text)
    assert "\n" not in line
    shown = re.sub(r"</?(p|pre|code)>", "", rendered(line)).strip()
    plain = visible(text).strip()
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        plain = plain.replace(character, entity)
    assert shown == plain


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.0972", "0.0972"), ("6 of them (18.8%)", "6 of them (18.8%)"), ("−0.1", "−0.1"),
        ("1. May", r"1\. May"), ("2) b", r"2\) b"), ("3.", r"3\."), ("- a", r"\- a"),
        ("+ a", r"\+ a"), ("===", r"\==="), ("a 1. b", "a 1. b"), ("a_b", r"a\_b"),
        ("a: b", "a: b"), ("+1", "+1"), ("-1", "-1"), ("---", r"\---"), ("-", r"\-"),
    ],
)  # fmt: skip
def test_only_markup_is_escaped_in_markdown(text: str, written: str) -> None:
    assert escape_markdown(text) == written


def test_no_backslash_of_a_markdown_report_is_shown(contents: Contents) -> None:
    assert "\\" not in rendered(render_markdown(contents))
