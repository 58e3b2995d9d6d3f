"""What headtool runs on: versions, machine and settings, for a bug report.

Nothing heavy is imported: packages tell their versions by their metadata, and torch what it was
built for by a file of its own.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.methods import BUILTIN, ENTRY_POINTS
from headtool.results.versions import installed, versions
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Environment", "env"]

_PACKAGES = (
    *("tokenizers", "datasets", "safetensors", "sacrebleu", "sentencepiece", "pandas", "pyarrow"),
    *("scipy", "statsmodels", "matplotlib", "accelerate", "bitsandbytes", "onnxruntime", "ray"),
    *("rich", "typer"),
)
# Settings of the libraries underneath. No others are read: variables can hold secrets.
_VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
    *("CUBLAS_WORKSPACE_CONFIG", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ENABLE_MPS_FALLBACK"),
    *("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE"),
    *("TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "TOKENIZERS_PARALLELISM"),
    *("MPLBACKEND", "PYTHONPATH", "PYTHONHASHSEED", "LANG", "LC_ALL", "COLUMNS", "NO_COLOR"),
)
_BUILD = re.compile(r"^(cuda|hip)\b[^=]*=\s*'([^']+)'", re.MULTILINE)
_SECONDS = 5  # for a program that tells of the machine


@dataclass(frozen=True)
class Environment:
    """What headtool runs on.

    Attributes
    ----------
    facts
        What is known: the part (``versions``, ``machine``, ``variables``), a name and a value.
    """

    facts: tuple[tuple[str, str, str], ...]

    @property
    def frame(self) -> pd.DataFrame:
        """A row per fact: part, name, value."""
        return TABLES["env"].frame(self.facts)

    def document(self) -> dict[str, Any]:
        """Return the facts as JSON can hold them, in the format ``headtool/env/1``."""
        rows = [dict(zip(("part", "name", "value"), fact, strict=True)) for fact in self.facts]
        return {"schema": "headtool/env/1", "provenance": {"versions": versions()}, "env": rows}


def env() -> Environment:
    """Say what headtool runs on: versions, machine, and settings in environment variables.

    This is for bug reports. Variables that may hold secrets are not read.

    Returns
    -------
    Environment
        The facts.

    Examples
    --------
    >>> import headtool
    >>> headtool.env().frame["part"].unique().tolist()[:2]
    ['versions', 'machine']
    """
    facts = [
        *(("versions", name, version) for name, version in (versions() | _others()).items()),
        *(("machine", name, value) for name, value in _machine()),
        *(("variables", name, os.environ[name]) for name in _VARIABLES if name in os.environ),
    ]
    return Environment(tuple(facts))


def _others() -> dict[str, str]:
    """Versions of further packages, those that add methods among them."""
    plugins = {
        entry.dist.name: entry.dist.version
        for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)
        if entry.dist is not None and entry.name not in BUILTIN
    }
    return installed(_PACKAGES) | plugins


def _machine() -> Iterator[tuple[str, str]]:
    yield "system", platform.platform()
    yield "processor", _processor()
    # A batch system may leave this process fewer cores than there are.
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield "cores", f"{allowed} of {os.cpu_count()}"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        yield "memory", f"{size / 2**30:.0f} GiB"
    yield "torch built for", _torch_build()
    yield "GPU", "; ".join(_gpus()) or "none found"


def _processor() -> str:
    """Name of the processor; Linux keeps it in a file."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _torch_build() -> str:
    """``CPU``, or the CUDA or ROCm that torch was built with."""
    spec = importlib.util.find_spec("torch")
    place = None if spec is None or spec.origin is None else Path(spec.origin).parent / "version.py"
    if place is None or not place.exists():
        return "unknown"
    found = _BUILD.search(place.read_text(encoding="utf-8"))
    return f"{found[1].upper()} {found[2]}" if found else "CPU"


def _gpus() -> list[str]:
    """GPUs by name, memory and driver, as NVIDIA's tool lists them."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []  # no tool, or no driver
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
