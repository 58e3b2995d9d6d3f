"""Export models to ONNX with PyTorch's own exporter, and check the file under ONNX Runtime."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.quiet import only_errors

__all__ = ["check_exportable", "export_onnx"]

_TOLERANCE = 1e-4  # relative to the largest output; the runtime orders sums in its own way


def check_exportable(model: ModelAdapter) -> None:
    """Refuse models that cannot be exported, and an installation that cannot export."""
    model.export(batch=1, length=4)
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise HeadtoolError(
            f"`onnx` needs the package {error.name}: install the extra with "
            'pip install "headtool[onnx]"'
        ) from error


def export_onnx(model: ModelAdapter, path: Path) -> float:
    """Write a model as ONNX, for batches and sequences of any size.

    Parameters
    ----------
    model
        A model whose library can export.
    path
        The file; weights above 2 GB go into one beside it.

    Returns
    -------
    float
        Largest difference between ONNX Runtime's outputs and the model's on input of another size
        than that of the export, relative to the largest output.

    Raises
    ------
    HeadtoolError
        If the model cannot be exported, or if the outputs differ.
    """
    check_exportable(model)
    whole, given = model.export(batch=2, length=7)
    any_size = torch.export.Dim.DYNAMIC
    try:
        # The exporter reports its progress on stdout.
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            only_errors("torch.onnx"),
        ):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                whole,
                tuple(given.values()),
                dynamo=True,
                dynamic_shapes={name: {0: any_size, 1: any_size} for name in given},
                input_names=list(given),
                output_names=["logits"],
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = " ".join(str(error).split())
        raise HeadtoolError(
            f"PyTorch cannot export {model.spec} to ONNX: {reason[:200]}; leave `onnx` out"
        ) from error
    assert program is not None
    program.save(path)
    difference = _difference(whole, path, model.export(batch=3, length=5)[1])
    if not difference <= _TOLERANCE:
        raise HeadtoolError(
            f"the exported model differs by {difference:.1e} under ONNX Runtime; leave `onnx` out"
        )
    return difference


def _difference(module: nn.Module, path: Path, inputs: dict[str, Tensor]) -> float:
    import onnxruntime

    from headtool.surgery.removal import relative_difference

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    arrays: dict[str, Any] = {name: value.cpu().numpy() for name, value in inputs.items()}
    with torch.inference_mode():
        expected = module(**inputs)
    return relative_difference(torch.from_numpy(session.run(None, arrays)[0]), expected.cpu())
