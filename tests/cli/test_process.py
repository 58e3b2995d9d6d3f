"""The command as a process of its own: streams, exit codes, and what the libraries print."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

HEADTOOL = (sys.executable, "-m", "headtool")


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    words = [*HEADTOOL, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, **options)


def test_the_installed_command_is_the_one_tested() -> None:
    (script,) = entry_points(group="console_scripts", name="headtool")
    assert script.value == "headtool.cli.main:run"
    installed = Path(sys.executable).with_name("headtool")
    done = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == f"headtool {version('headtool')}"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["score", "--help"], ["methods", "--help"], ["heads", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    heavy = "('torch', 'transformers', 'fairseq', 'pandas', 'datasets', 'numpy')"
    code = (
        "import sys\nfrom headtool.cli.main import run\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"assert not [name for name in {heavy} if name in sys.modules]\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage: headtool" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_result_on_stdout_and_nothing_else_anywhere(bert, reviews) -> None:
    done = run("score", "--model", bert, "--data", reviews, "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "headtool/scores/1"
    assert done.stderr == ""


@pytest.mark.slow
def test_verbose_lets_the_libraries_speak(bert, reviews) -> None:
    done = run("score", "--model", bert, "--data", reviews, "--format", "json", "--verbose")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "headtool/scores/1"
    assert "Loading weights" in done.stderr


@pytest.mark.slow
def test_python_is_as_quiet(bert) -> None:
    """Without the bar for loading weights, and with the library's settings as they were."""
    code = (
        "import sys, headtool\n"
        "from transformers.utils.logging import is_progress_bar_enabled\n"
        "headtool.load_model(sys.argv[1])\n"
        "assert is_progress_bar_enabled()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, bert], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_bad_input_is_one_line_and_exit_code_2(tmp_path) -> None:
    done = run("score", "--method", "gradeint", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: unknown method 'gradeint'; did you mean 'gradient'?")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_stops_early_is_no_bug() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*HEADTOOL, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.slow
def test_interrupt_from_the_keyboard(bert, reviews, tmp_path) -> None:
    command = [*HEADTOOL, "score", "--model", str(bert), "--data", str(reviews), "--out", "run"]
    command += ["--method", "gates", "--set", "gates.steps=100000"]  # hours
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has them ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while process.poll() is None and not (tmp_path / "run.unfinished").exists():
            time.sleep(0.1)
        time.sleep(0.5)
        out, err = interrupt(process)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    *told, last = err.splitlines()
    assert last.startswith("interrupted; to start again: headtool score --model ")
    assert told[:1] == [line for line in told if line.startswith("plan: ")]  # hours are announced
    assert len(told) <= 2
    assert list(tmp_path.iterdir()) == []


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C until the process ends: one that comes just before a read is not noticed."""
    for _ in range(30):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=4)
    raise AssertionError("the process does not end")
