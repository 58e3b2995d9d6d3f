"""Pages that are executed when the site is built.

A fence marked `run` runs, and what it prints is put below it:

    ```sh run             what it prints is shown below
    ```sh run fold        ... folded away
    ```sh run quiet       ... not shown
    ```python run         Python; the blocks of a page share their names
    ```python file=a.py   written to a.py, not run (toml and yaml too)

All blocks of a page run in one scratch folder, in order; a block that fails fails the build. Files
that they write are shown by a comment on a line of its own:

    <!-- picture: figures/curves.svg | what the picture shows -->
    <!-- report: runs/compared/report.html | what the page is called -->

A page runs again only if its blocks, or anything in the package, changed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("toolkit", "methods", "analysis", "reports", "cli")
_FENCE = re.compile(
    r"^```(sh|python|toml|yaml) (run|file=\S+)((?: \w+)*)\n(.*?)^```\n", re.M | re.S
)
_SHOWN = re.compile(r"^<!-- (picture|report): (\S+) \| (.+?) -->$", re.M)
_NEEDS = re.compile(r"^<!-- needs: (\w+) -->$", re.M)


class BuildError(RuntimeError):
    """A page cannot be built; the text says which, and shows what failed."""


@dataclass(frozen=True)
class Block:
    """A fence that is run, or written to a file."""

    language: str
    action: str
    flags: tuple[str, ...]
    code: str


@dataclass(frozen=True)
class Page:
    """A page that is executed."""

    name: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        """Its marked fences, in order."""
        found = _FENCE.findall(self.text)
        return [
            Block(language, action, tuple(flags.split()), code)
            for language, action, flags, code in found
        ]

    @property
    def lacking(self) -> str | None:
        """A package that the page needs and that is not installed."""
        needed = _NEEDS.search(self.text)
        return needed[1] if needed and importlib.util.find_spec(needed[1]) is None else None

    def key(self, source: str) -> str:
        """What the page's outputs depend on, as a digest."""
        parts = [
            source,
            *(f"{block.language}\0{block.action}\0{block.code}" for block in self.blocks),
        ]
        return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()[:16]


def source_digest() -> str:
    """Return a digest of the package, and of what runs pages."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted([*paths, Path(__file__).with_name("session.py")]):
        if "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def run_page(page: Page, folder: Path) -> None:
    """Run a page's blocks in `folder`/files and keep the outputs in `folder`/outputs.json."""
    if (folder / "outputs.json").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    files = folder / "files"
    files.mkdir(parents=True)
    for block in page.blocks:
        if block.action != "run":
            (files / block.action.removeprefix("file=")).write_text(block.code, encoding="utf-8")
    blocks = [{"language": b.language, "code": b.code} for b in page.blocks if b.action == "run"]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("session.py"))],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        cwd=files,
        env=_environment(folder / "site"),
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"{page.name} failed:\n{done.stderr}")
    (folder / "outputs.json").write_text(done.stdout, encoding="utf-8")


def _environment(site: Path) -> dict[str, str]:
    """What pages run in: 80 columns, one thread, and pip installing into a folder of the page's."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {
        "COLUMNS": "80",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": path,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # which is how pip spells --no-build-isolation here
        "PIP_NO_DEPS": "1",
        "PIP_QUIET": "1",
        "PIP_TARGET": str(site),
        "PYTHONPATH": str(site),
        "TERM": "dumb",
        "TTY_COMPATIBLE": "1",  # tables as a terminal has them, without its colours
    }


def run_pages(pages: list[Page], cache: Path) -> dict[str, Path]:
    """Run all pages, as many at a time as there are cores.

    Parameters
    ----------
    pages
        Pages with blocks to run.
    cache
        Folder that keeps outputs between builds.

    Returns
    -------
    dict of str to Path
        The folder of each page that ran, by name.

    Raises
    ------
    BuildError
        If a block fails.
    """
    source = source_digest()
    folders = {page.name: cache / page.key(source) for page in pages if page.lacking is None}
    running = [page for page in pages if page.name in folders]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda page: run_page(page, folders[page.name]), running):
            pass
    if cache.is_dir():  # what older sources put out
        for folder in set(cache.iterdir()) - set(folders.values()):
            shutil.rmtree(folder)
    return folders


def shown_files(page: Page, folder: Path) -> dict[str, Path]:
    """Return the files that a page shows, by their place beside the page.

    Raises
    ------
    BuildError
        If the page's blocks did not write one of them.
    """
    found = {name: folder / "files" / name for _, name, _ in _SHOWN.findall(page.text)}
    for name, path in found.items():
        if not path.is_file():
            raise BuildError(f"{page.name} shows {name}, but its blocks did not write that file")
    return found


def with_outputs(page: Page, folder: Path | None) -> str:
    """Return a page's text with the outputs, or, without a folder, with a word on why not."""
    outputs = iter(json.loads((folder / "outputs.json").read_text("utf-8")) if folder else [])
    stem = Path(page.name).stem

    def fence(match: re.Match[str]) -> str:
        language, action, flags, code = match.groups()
        title = "" if action == "run" else f' title="{action.removeprefix("file=")}"'
        plain = f"```{language}{title}\n{code}```\n"
        return plain + (_output(next(outputs), flags.split()) if folder and action == "run" else "")

    def shown(match: re.Match[str]) -> str:
        sort, name, words = match.groups()
        place = f"{stem}/{name}"
        if sort == "picture":
            return f"![{words}]({place}){{ .picture }}"
        frame = (
            f'<iframe class="report" src="{place}" title="{escape(words)}" loading="lazy"></iframe>'
        )
        return f"{frame}\n\n[{words}, as a page of its own]({place}){{ target=_blank }}"

    text = _SHOWN.sub(shown if folder else "", _FENCE.sub(fence, page.text))
    if folder is None:
        words = f"This page was built without {page.lacking}, so its outputs are not shown."
        note = f"!!! note\n    {words}\n"
        text = re.sub(r"^(# .*\n)", rf"\1\n{note}", text, count=1)
    return text


def _output(output: dict[str, str], flags: list[str]) -> str:
    if "quiet" in flags or not (output["text"].strip() or output["html"]):
        return ""
    lines = [line.rstrip() for line in output["text"].rstrip().splitlines()]
    text = "\n```{ .text .output }\n" + "\n".join(lines) + "\n```\n" if lines else ""
    html = f'\n<div class="shown">{output["html"]}</div>\n' if output["html"] else ""
    if "fold" in flags:
        indented = "".join(f"    {line}".rstrip() + "\n" for line in (text + html).splitlines())
        return f'\n??? example "What it prints"\n{indented}'
    return text + html
