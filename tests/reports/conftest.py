"""Synthetic runs, small and large, that the report tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headtool.reports.contents.heads import places
from headtool.reports.contents.run import Contents, read_contents, with_roles
from headtool.reports.formats.html import render_html
from headtool.results.runs import write_run

from ..support import hostile
from ..support.comparisons import write_comparison
from ..support.few_roles import SOURCE, few_roles
from ..support.html import Page
from ..support.replicates import write_replicated
from ..support.roles import HEADS, role_frame, write_roles
from ..support.stability import write_subsampled
from ..support.tables import completed

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass
class Seen:
    """What a page did besides showing itself."""

    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


Open = Callable[..., Any]


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of four methods on two data sets; nobody writes there."""
    folder = tmp_path_factory.mktemp("runs") / "compared"
    write_comparison(folder, failures=[("score", "lrp", "unknown layer; leave lrp out")])
    return folder


@pytest.fixture(scope="session")
def contents(compared: Path) -> Contents:
    return read_contents(compared)


@pytest.fixture(scope="session")
def with_known_roles(compared: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The comparison with roles: the heads that gradient keeps longest are positional.

    Every sixth head is syntactic, so that some have both roles; none is found for rare tokens; the
    data could not tell which heads are of punctuation.
    """
    contents = read_contents(compared)
    kept = contents.table("kept").query("method == 'gradient' and kept and budget == 58")
    having = {"positional": places(kept), "syntactic": HEADS[::6], "rare-token": []}
    folder = tmp_path_factory.mktemp("roles") / "roles"
    write_roles(folder, role_frame(having, untested=["punctuation"]))
    return with_roles(contents, folder)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Contents]:
    """Write a synthetic comparison with some options, and open it."""

    def written(**options: Any) -> Contents:
        write_comparison(tmp_path / "made", force=True, **options)
        return read_contents(tmp_path / "made")

    return written


@pytest.fixture(scope="session")
def role_page(with_known_roles: Contents) -> Page:
    """The page of the comparison with roles."""
    return Page(render_html(with_known_roles))


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """A comparison whose every name is hostile."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    write_comparison(folder, **hostile.OPTIONS)
    return read_contents(folder)


@pytest.fixture(scope="session")
def subsampled(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """A comparison of two methods with subsamples."""
    return read_contents(write_subsampled(tmp_path_factory.mktemp("stability") / "run").folder)


@pytest.fixture
def replicated(tmp_path: Path) -> Contents:
    """A comparison of two methods on three models."""
    return read_contents(write_replicated(tmp_path / "run").folder)


@pytest.fixture
def role_run(tmp_path: Path) -> Path:
    write_run(
        tmp_path / "roles",
        command="headtool roles",
        provenance={"roles": {**SOURCE, "metric": "share"}},
        tables={"roles": few_roles()},
    )
    return tmp_path / "roles"


@pytest.fixture
def dynamics_run(tmp_path: Path) -> Path:
    shares = [0.0, 0.5, 0.0, 0.5]
    curves = {"checkpoint": [*"aabb"], "share": shares}
    values = {"value": [0.8, 0.4, 0.9, 0.5], "relative": [1, 0.5, 1, 0.55]}
    tables = {
        "checkpoint_scores": {"checkpoint": ["a"], "score": [1.0], "kind": ["enc-self"]},
        "checkpoint_curves": {**curves, **values},
        "prunability": {"checkpoint": [*"ab"], "whole": [0.8, 0.9]},
        "rank_stability": {"checkpoint_x": ["a"], "checkpoint_y": ["b"], "spearman": [0.321]},
    }
    source = {"command": "dynamics", "checkpoints": ["a", "b"], "options": {"steps": "50%"}}
    write_run(
        tmp_path / "run",
        command="",
        provenance={"dynamics": source},
        tables={name: completed(name, columns) for name, columns in tables.items()},
    )
    return tmp_path / "run"


# -- a browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright", reason="playwright is not installed")
    from playwright.sync_api import sync_playwright

    found = os.environ.get("HEADTOOL_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if found is None:
        pytest.skip("no Chromium on the path; set HEADTOOL_CHROMIUM to one")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def page_file(compared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_html(read_contents(compared)), encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser: Any, page_file: Path) -> Iterator[Open]:
    """Open the report (or another file) as a reader would, and watch what it does."""
    contexts = []

    def opened(path: Path = page_file, *, width: int = 1280, **options: Any) -> tuple[Any, Seen]:
        # Without smooth scrolling, in which clicks miss.
        how = {"reduced_motion": "reduce", **options}
        context = browser.new_context(viewport={"width": width, "height": 900}, **how)
        contexts.append(context)
        page, seen = context.new_page(), Seen()
        page.on("console", lambda message: seen.messages.append(message.text))
        page.on("pageerror", lambda error: seen.messages.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        return page, seen

    yield opened
    for context in contexts:
        context.close()
