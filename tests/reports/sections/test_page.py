"""What a reader must keep in mind stands there in sentences, one item for each note."""

from __future__ import annotations

from collections.abc import Callable

from headtool.reports.contents.run import Contents
from headtool.reports.sections.page import build_page


def test_notes_and_failures_are_sentences(make: Callable[..., Contents]) -> None:
    contents = make(
        data=("/home/me/data/news.tsv", "/home/me/data/reviews.tsv"),
        failures=[("score", "lrp", "unknown layer; leave lrp out")],
        notes=[
            "agreement between methods is left out: gates is the only method",
            "/home/me/data/news.tsv: 20 resamples are few; holm needs 100",
        ],
    )
    assert build_page(contents).warnings == [
        "The method lrp failed at score: unknown layer; leave lrp out.",
        "Agreement between methods is left out: gates is the only method.",
        "On data/news.tsv: 20 resamples are few; holm needs 100.",
    ]


def test_names_are_not_taken_apart(make: Callable[..., Contents]) -> None:
    contents = make(
        data=("news; old.tsv", "reviews.tsv"),
        notes=["no examples of news; old.tsv: no interval", "news; old.tsv: few examples."],
    )
    assert build_page(contents).warnings == [
        "No examples of news; old.tsv: no interval.",
        "On news; old.tsv: Few examples.",
    ]
