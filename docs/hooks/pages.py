"""What mkdocs calls while it builds the site: generated pages, executed pages, inlined diagrams."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generated
import notebooks
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from tutorials import BuildError, Page, run_pages, shown_files, with_outputs

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "docs"
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)\s]+)?\)")
_DIAGRAM = re.compile(r"^!\[[^\]]*\]\((diagrams/[\w-]+\.svg)\)$", re.M)
_SHIM = "https://unpkg.com/iframe-worker/shim"
_COMMAND = re.compile(r"^\| `headtool (\w+)` \|", re.M)

_executed: dict[str, str] = {}


def on_startup(**_: Any) -> None:
    """Show the rooms under the name that they are imported by, for the API reference.

    The plugin that reads them lists the folder once, before `on_config`.
    """
    view = CACHE / "view" / "headtool"
    view.mkdir(parents=True, exist_ok=True)
    rooms = [
        *(ROOT / "toolkit").iterdir(),
        *(ROOT / n for n in ("analysis", "cli", "methods", "reports")),
    ]
    for link in view.iterdir():
        link.unlink()
    for path in rooms:
        (view / path.name).symlink_to(path)


def on_config(config: Any) -> Any:
    """Add a page for each command to the navigation."""
    pages = [{name: f"commands/{name}.md"} for name in generated.command_names()]
    (commands,) = [entry["Commands"] for entry in config.nav if "Commands" in entry]
    commands.extend(pages)
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that are written from the package, and the outputs of those that are run."""

    def add(place: str, text: str) -> None:
        files.append(File.generated(config, place, content=text))

    for name, text in generated.command_pages().items():
        add(f"commands/{name}.md", text)
    for name, text in generated.api_pages().items():
        add(f"api/{name}.md", text)
    for name, place in outside().items():
        add(place, as_page(ROOT / name))
    tutorials = [
        Page(f.src_uri, f.content_string) for f in files if f.src_uri.startswith("tutorials/")
    ]
    try:
        folders = run_pages(tutorials, CACHE / "pages")
        for page in tutorials:
            folder = folders.get(page.name)
            _executed[page.name] = with_outputs(page, folder)
            for name, path in shown_files(page, folder).items() if folder else ():
                place = f"{page.name.removesuffix('.md')}/{name}"
                files.append(File.generated(config, place, abs_src_path=str(path)))
    except BuildError as error:
        raise PluginError(str(error)) from error
    return files


def outside() -> dict[str, str]:
    """Return the files of the repository that are pages of the site, and where."""
    examples = [*(ROOT / "examples").glob("*.py"), *(ROOT / "examples").glob("*.ipynb")]
    return {
        "CONTRIBUTING.md": "contributing.md",
        "CHANGELOG.md": "changelog.md",
        **{f"examples/{path.name}": f"examples/{path.stem}.md" for path in sorted(examples)},
        "examples/study/study.yaml": "examples/study.md",
    }


def as_page(path: Path) -> str:
    """Return the text of a file of the repository as a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return notebooks.as_markdown(path)
    if path.suffix in (".py", ".yaml"):
        title = path.stem.replace("_", " ").capitalize()
        language = {".py": "python", ".yaml": "yaml"}[path.suffix]
        name = path.relative_to(ROOT).as_posix()
        return f'# {title}\n\n```{language} title="{name}"\n{text}```\n'
    return text


def on_page_markdown(text: str, *, page: Any, **_: Any) -> str:
    """Put in the outputs and diagrams, and turn links to the repository into links to pages."""
    place = page.file.src_uri
    text = _executed.get(place, text)
    if place == "commands.md":
        text = _COMMAND.sub(r"| [`headtool \1`](commands/\1.md) |", text)
    text = _LINK.sub(lambda match: _linked(match, place), text)
    return _DIAGRAM.sub(_diagram, text)


def _diagram(match: re.Match[str]) -> str:
    """A drawing inside its page, where it takes on the page's colours."""
    return f"<div>{(ROOT / 'docs' / match[1]).read_text('utf-8')}</div>"


def on_post_page(text: str, *, page: Any, **_: Any) -> str:
    """Let the theme's one script from the network be our own."""
    depth = page.file.src_uri.count("/")
    return text.replace(_SHIM, "../" * depth + "search-from-disk.js")


def on_post_template(text: str, **_: Any) -> str:
    """Do the same for the page that says that there is no such page."""
    return text.replace(_SHIM, "/search-from-disk.js")


def _linked(match: re.Match[str], place: str) -> str:
    """A link, with its target on the site if that is a file outside `docs`."""
    words, target, anchor = match.groups()
    pages = outside()
    base = posixpath.dirname(place)
    inside = place in pages.values()  # then the link is relative to the file's own folder
    source = next((name for name, at in pages.items() if at == place), f"docs/{place}")
    named = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if named == "README.md":
        named = "docs/index.md"
    if named in pages:
        named = f"docs/{pages[named]}"
    elif not inside or not named.startswith("docs/"):
        return match[0]
    return f"{words}({posixpath.relpath(named.removeprefix('docs/'), base or '.')}{anchor or ''})"
