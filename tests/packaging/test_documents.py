"""README, CONTRIBUTING and the pages of the docs name only what exists."""

from __future__ import annotations

import posixpath
import re
import shlex
from pathlib import Path

import pytest
import typer

from headtool.cli.main import app

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "docs").rglob("*.md")
)
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *PAGES)


def text(document: str) -> str:
    return (REPOSITORY / document).read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}(?: run[ \w]*)?\n(.*?)^```", text(document), re.M | re.DOTALL
    )


def commands(first: str) -> list[list[str]]:
    """The command lines in the documents' shell blocks that start with a word."""
    shell = [block.replace("\\\n", " ") for name in DOCUMENTS for block in blocks(name, "sh")]
    lines = [line for block in shell for line in block.split("\n")]
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[1:] for line in words if line[:1] == [first]]


def parse(arguments: list[str]) -> None:
    """Parse a headtool command line without running it; a wrong one raises."""
    command = typer.main.get_command(app)
    name, *rest = arguments
    command = command.commands[name]
    if hasattr(command, "commands"):  # of a group such as `headtool study`
        name, *rest = rest
        command = command.commands[name]
    command.make_context(name, rest)


def test_every_headtool_command_can_be_parsed() -> None:
    examples = commands("headtool")
    assert {"methods", "heads", "score"} <= {line[0] for line in examples}
    for example in examples:
        parse(example)


def test_a_wrong_command_would_be_noticed() -> None:
    for command in (["score"], ["study", "run", "x.yaml"]):
        with pytest.raises(Exception, match="--modle"):
            parse([*command, "--modle", "x"])


def test_every_make_target_exists() -> None:
    makefile = text("Makefile")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    inline = re.findall(r"`make ([a-z]+)", "".join(map(text, DOCUMENTS)))
    used = {line[0] for line in commands("make")} | set(inline)
    assert {"demo", "test", "check"} <= used <= targets


def test_every_file_named_exists() -> None:
    pattern = r"`((?:toolkit|methods|analysis|reports|cli|tests)/[\w/.]*)`"
    named = {path for document in DOCUMENTS for path in re.findall(pattern, text(document))}
    linked = {
        posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        for name in DOCUMENTS
        for path in re.findall(r"\]\(([\w./-]*[\w])(?:#[\w-]+)?\)", text(name))
    }
    assert len(named) > 10
    assert len(linked) > 20
    assert [path for path in sorted(named | linked) if not (REPOSITORY / path).exists()] == []


def test_every_method_is_in_the_table() -> None:
    from headtool.methods import BUILTIN

    rows = set(re.findall(r"^\| `([\w-]+)` \|", text("docs/methods.md"), re.MULTILINE))
    assert set(BUILTIN) <= rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'pin_memory' argument")  # Trainer's default without a GPU
def test_the_python_examples_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where examples write
    names: dict[str, object] = {}  # an example may go on where the one before ended
    for example in blocks("docs/python.md", "python"):
        exec(compile(example, "docs/python.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "verdict" in printed
    assert "pruned" in printed
