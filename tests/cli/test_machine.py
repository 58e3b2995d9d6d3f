"""What the machine refuses: one line, whatever stream, disk or memory is at its end."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headtool.cli.machine import refusal

HEADTOOL = (sys.executable, "-m", "headtool")


def in_shell(command: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command line of a shell, in which ``headtool`` is ours."""
    words = ["bash", "-c", command.replace("headtool", f"{sys.executable} -m headtool")]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **options)


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


def test_a_closed_output_is_refused_before_any_work(tmp_path: Path) -> None:
    done = in_shell("headtool score --out run >&-", cwd=tmp_path)
    assert "standard output is closed; send it to a file, or to /dev/null" in one_line(done, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("command", ["--help", "--version"])
def test_a_full_output_is_one_line(command: str) -> None:
    message = one_line(in_shell(f"headtool {command} > /dev/full"), 2)
    assert "cannot write: No space left on device; make room" in message


@pytest.mark.parametrize("where", ["2>&-", "2> /dev/full"])
def test_errors_that_nobody_hears_still_have_their_code(where: str) -> None:
    assert in_shell(f"headtool score --nope {where}").returncode == 2
    assert in_shell(f"headtool --version {where}").returncode == 0


@pytest.mark.slow
def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20, 400 * 2**20))

    words = [*HEADTOOL, "score", "--limit", "4", "--out", "run"]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, cwd=tmp_path, preexec_fn=confine
    )
    assert "the memory is not enough" in one_line(done, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (MemoryError(), "the memory is not enough"),
        (RuntimeError("[enforce fail] can't allocate memory: you tried 8 bytes"), "--batch-tokens"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "--batch-tokens"),
        (ImportError("libtorch.so: failed to map segment from shared object"), "ulimit -v"),
        (OSError(errno.EACCES, "Permission denied", "a/b"), "a/b: Permission denied; change its"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x"), "x: File name too long; use a sh"),
        (OSError(errno.EROFS, "Read-only file system", "x"), "choose another place"),
    ],
)
def test_what_the_machine_refuses(error: Exception, part: str) -> None:
    assert part in str(refusal(error))


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes differ"), OSError("x"), ImportError("no x"), KeyError("x")]
)
def test_bugs_keep_their_traceback(
    error: Exception, headtool: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    assert refusal(error) is None
    monkeypatch.setattr("headtool.cli.main.app", broken)
    with pytest.raises(type(error)):
        headtool("methods")
