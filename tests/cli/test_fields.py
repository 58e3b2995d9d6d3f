"""Messages of the library name fields; on the command line the same messages name its options."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import typer

import headtool as library
from headtool.cli.console import prepare_messages
from headtool.cli.fields import set_command, with_options
from headtool.cli.main import app

from .conftest import Run, settings_of_the_process

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("ablate --limit 2 --device cuda", "use --device cpu"),
        ("compare --alpha 2", "--alpha must be between 0 and 1, got 2"),
        ("compare --limit 9 --replicate builtin:nli", "--replicate: builtin:nli has the same"),
        ("correlate --data x.tsv --data x.tsv --columns a", "--columns: 'a' is not role=column"),
        ("curve --limit 8 --steps 200%", "--steps 200%: 200% must be above 0 and at most 100%"),
        (
            "dynamics --checkpoints *.pt --data builtin:nli/matched --figure a.x",
            "format of --figure",
        ),
        ("heads --bpe x", "--bpe is for fairseq models"),
        ("prune --mask none.json", "no such file: none.json; check --mask"),
        ("roles --alpha 1", "--alpha must be between 0 and 1, got 1"),
        ("score --out .", "which a run would replace; choose another --out"),
        ("validate --methods magnitude --out .", "which a run would replace; choose another --out"),
        ("validate --set gradient.granularity=example", "--set is for methods that --methods"),
        ("speed --mask none.json", "no such file: none.json; check --mask"),
    ],
)
def test_a_command_names_its_options(
    headtool: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("1.pt", "2.pt"):
        Path(name).touch()
    done = headtool(*command.split())
    assert done.code == 2
    assert message in done.err
    assert "`" not in done.err


def test_a_command_on_a_run_names_its_options(headtool: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "1").touch()
    assert headtool("ablate", "--heads", "enc-self.0.0", "--limit", 2, "--out", run).code == 0
    done = headtool("test", run, "--alpha", 2)
    assert done.err == "error: --alpha must be between 0 and 1, got 2\n"
    done = headtool("report", run, "--out", tmp_path / "1")
    assert done.err.endswith("1 exists already; choose another --out or add --force\n")


def test_python_names_fields() -> None:
    with pytest.raises(library.HeadtoolError, match="`alpha` must be between 0 and 1, got 2"):
        library.compare("builtin:nli", ["gradient"], alpha=2)


@pytest.mark.parametrize(
    ("command", "text", "shown"),
    [
        ("compare", "choose another `out`", "choose another --out"),
        ("compare", "choose another `output_dir`", "choose another --out"),
        ("compare", "add `force=True`", "add --force"),
        ("compare", "try `dtype=float32`", "try --dtype float32"),
        ("compare", "`length_penalty` and `kinds`", "--lenpen and --kind"),
        ("compare", "`batch_tokens` of `replicates`", "--batch-tokens of --replicate"),
        ("compare", "no `roles`", "no --roles"),
        ("roles", "no `roles`", "no --role"),
        ("score", "no `methods`", "no --method"),
        ("heads", "no `methods`, `steps` or `dtype=x`", "no methods, steps or --dtype x"),
        ("heads", "`force=True` replaces", "force=True replaces"),
        ("compare", "`max_length` must be", "--max-new-tokens must be"),
        ("report", "run `headtool show RUN`", "run `headtool show RUN`"),
        ("report", "`my_column` and ``out`` and `Out`", "`my_column` and `--out` and `Out`"),
        (
            "test",
            "make one with headtool ablate --out RUN",
            "make one with headtool ablate --out RUN",
        ),
    ],
)
def test_fields_become_options_of_the_command(command: str, text: str, shown: str) -> None:
    set_command(COMMANDS[command], COMMANDS.values())
    assert with_options(text) == shown


def test_notes_name_options_too(capsys: pytest.CaptureFixture[str]) -> None:
    set_command(COMMANDS["score"], COMMANDS.values())
    with settings_of_the_process():
        prepare_messages()
        logging.getLogger("headtool.data").warning("`batch_tokens` is %d, `unheard_of`", 7)
    assert capsys.readouterr().err == "--batch-tokens is 7, `unheard_of`\n"
