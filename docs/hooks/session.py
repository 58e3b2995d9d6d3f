"""Run the blocks of one page in the current folder, in order, and print what they put out.

Standard input holds the blocks as JSON, `{"language": ..., "code": ...}`; standard output gets one
`{"text": ..., "html": ...}` per block, without notes and progress. The first block that fails ends
the program, with all that it put out on standard error. A block of nothing but headtool commands
runs in forks of this process, which has imported the heavy libraries once; each is the program that
the shell would start.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from typing import Any

_OF_THE_SHELL = set("|<>&;$`*(){}")


class BlockError(Exception):
    """A block failed; the text is what it put out."""


def _commands(code: str) -> list[list[str]] | None:
    """The headtool commands of a block; None if it holds anything else."""
    lines = code.replace("\\\n", " ").splitlines()
    if any(_OF_THE_SHELL & set(line) for line in lines):
        return None
    words = [found for line in lines if (found := shlex.split(line, comments=True))]
    return words if all(found[0] == "headtool" for found in words) else None


def _fork(words: list[str]) -> str:
    """Run a headtool command; returns its standard output."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as notes:
        printed, code = _run(words, notes.fileno())
        notes.seek(0)
        if code != 0:
            raise BlockError(f"$ {shlex.join(words)}\n{printed}{notes.read()}")
    return printed


def _run(words: list[str], notes: int) -> tuple[str, int]:
    """Run a headtool command in a fork; returns its standard output and exit code."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.dup2(writing, 1)
            os.dup2(notes, 2)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            sys.argv = words
            importlib.invalidate_caches()
            from headtool.cli.main import run

            run()
        finally:  # whatever happens, a fork never goes on as its parent
            error = sys.exception()
            if error is not None and not isinstance(error, SystemExit):
                traceback.print_exception(error)
            code = error.code if isinstance(error, SystemExit) else int(error is not None)
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code if isinstance(code, int) else int(code is not None))
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        printed = pipe.read()
    _, status = os.waitpid(child, 0)
    return printed, os.waitstatus_to_exitcode(status)


def _shell(code: str) -> dict[str, str]:
    commands = _commands(code)
    if commands is not None:
        return {"text": "".join(map(_fork, commands)), "html": ""}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BlockError(f"$ {code}\n{done.stdout}{done.stderr}")
    return {"text": done.stdout, "html": ""}


def _python(code: str, names: dict[str, Any]) -> dict[str, str]:
    """Run statements; a last expression is shown as a notebook shows it."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(ast.Module(body, []), "<page>", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
    except Exception as error:
        raise BlockError(f"{code}\n{printed.getvalue()}{traceback.format_exc()}") from error
    html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    plain = "" if value is None or html else f"{value!r}\n"
    return {"text": printed.getvalue() + plain, "html": html}


def main() -> None:
    """Run what standard input holds."""
    blocks = json.load(sys.stdin)
    if any("headtool" in block["code"] for block in blocks):
        # What every command imports is imported here, once.
        for name in ("torch", "transformers", "headtool.experiments.compare", "headtool.cli.main"):
            importlib.import_module(name)
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    try:
        for block in blocks:
            run = _shell if block["language"] == "sh" else (lambda code: _python(code, names))
            outputs.append(run(block["code"]))
    except BlockError as failure:
        sys.exit(str(failure))
    json.dump(outputs, sys.stdout)


if __name__ == "__main__":
    main()
