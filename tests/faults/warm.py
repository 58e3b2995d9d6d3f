"""A process that has imported everything and done nothing: commands forked from it start at once.

It reads lines of JSON, runs the jobs of a line at the same time, and answers with a line of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import selectors
import shutil
import signal
import sys
import threading
import time
import traceback
from typing import Any

_TABLE = "write a table"  # no call of Python's: its library writes by itself
_CHANGES = (
    _TABLE,
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
)


def import_everything() -> None:
    """Import what commands import; nothing may start a thread, which a fork would lose."""
    import matplotlib.backends.backend_svg
    import pandas.io.parquet
    import pyarrow.parquet
    import scipy.stats
    import torch
    import transformers.models.bert.modeling_bert
    import transformers.models.bert.tokenization_bert

    import headtool

    for module in pkgutil.walk_packages(headtool.__path__, "headtool."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # what an extra brings
                importlib.import_module(module.name)
    written = pandas.DataFrame.to_parquet

    def to_parquet(frame: Any, path: Any, **settings: Any) -> Any:
        sys.audit(_TABLE, path)
        return written(frame, path, **settings)

    pandas.DataFrame.to_parquet = to_parquet
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    del matplotlib, pyarrow, scipy


class Steps:
    """Counts the calls that change files below the working folder.

    Just before one of them the process dies, or everything in the folder is removed.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.place = os.getcwd() + os.sep
        self.fatal, self.empty = job["kill_at"], job["remove_at"]
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in _CHANGES:
            path = arguments[0]
        else:
            return
        try:
            name = os.fsdecode(path)
        except TypeError:  # a descriptor
            return
        if os.path.isabs(name) and not name.startswith(self.place):
            return
        self.seen.append(f"{event} {name.removeprefix(self.place)}")
        if len(self.seen) == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(self.seen) == self.empty:
            for held in list(os.scandir(self.place)):
                if held.is_dir():
                    shutil.rmtree(held.path)
                else:
                    os.remove(held.path)


def run_command(job: dict[str, Any], out: int, err: int, steps: int) -> None:
    """Run the command in this process, and end it."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        time.sleep(job["start_after"])
        os.chdir(job["place"])
        sys.argv = ["headtool", *job["arguments"]]
        if job["largest_file"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (job["largest_file"],) * 2)
        noted = Steps(job)
        from headtool.cli.main import run

        try:
            run()
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        os.write(steps, json.dumps(noted.seen).encode())
    finally:
        if error := sys.exception():
            traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(code)


def run_all(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run jobs at the same time, and say how each ended."""
    started = time.monotonic()
    streams = selectors.DefaultSelector()
    children, deadlines = [], {}
    for number, job in enumerate(jobs):
        pipes = [os.pipe() for _ in range(3)]
        child = os.fork()
        if child == 0:
            run_command(job, *(writer for _, writer in pipes))
        children.append(child)
        if job["kill_after"] is not None:
            deadlines[child] = started + job["kill_after"]
        for name, (reader, writer) in zip(("out", "err", "steps"), pipes, strict=True):
            os.close(writer)
            streams.register(reader, selectors.EVENT_READ, (number, name))
    found = [{"out": b"", "err": b"", "steps": b"", "seconds": 0.0} for _ in jobs]
    while streams.get_map():
        wait = min(deadlines.values(), default=started + 600) - time.monotonic()
        for key, _ in streams.select(max(wait, 0)):
            number, name = key.data
            if piece := os.read(key.fd, 65536):
                found[number][name] += piece
            else:
                streams.unregister(key.fd)
                os.close(key.fd)
                found[number]["seconds"] = time.monotonic() - started
        for child in [child for child, end in deadlines.items() if end <= time.monotonic()]:
            del deadlines[child]
            os.kill(child, signal.SIGKILL)  # it may have ended, but nobody has waited for it yet
    return [
        {
            "code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),
            "out": one["out"].decode(),
            "err": one["err"].decode(),
            "steps": json.loads(one["steps"] or b"null"),
            "seconds": one["seconds"],
        }
        for child, one in zip(children, found, strict=True)
    ]


if __name__ == "__main__":
    import_everything()
    assert threading.active_count() == 1
    print(json.dumps(len(os.listdir("/proc/self/task"))), flush=True)
    for line in sys.stdin:
        print(json.dumps(run_all(json.loads(line))), flush=True)
