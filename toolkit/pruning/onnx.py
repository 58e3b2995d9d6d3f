"""Export models to ONNX with PyTorch's own exporter, and check the file under ONNX Runtime."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.quiet import only_errors

__all__ = ["check_exportable", "export_onnx"]

_TOLERANCE = 1e-4  # relative to the largest output; the runtime orders sums in its own way


class _Logits(nn.Module):
    """A model as a function of tensors."""

    def __init__(self, model: HuggingFaceModel) -> None:
        super().__init__()
        self.model = model.module
        # Caches are no tensors.
        self.options = {"use_cache": False} if model.task in ("causal-lm", "seq2seq") else {}

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor | None = None
    ) -> Tensor:
        """Return the logits."""
        decoder = {} if decoder_input_ids is None else {"decoder_input_ids": decoder_input_ids}
        output = self.model(
            input_ids=input_ids, attention_mask=attention_mask, **decoder, **self.options
        )
        return cast(Tensor, output.logits)


def check_exportable(model: ModelAdapter) -> None:
    """Refuse models that cannot be exported, and an installation that cannot export."""
    if not isinstance(model, HuggingFaceModel):
        raise HeadtoolError(
            f"`onnx` exports transformers models, and {model.spec} is a {model.library} model; "
            "leave `onnx` out"
        )
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
        A transformers model.
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
    assert isinstance(model, HuggingFaceModel)
    whole = _Logits(model).eval()
    given = _inputs(model, batch=2, length=7)
    any_size = torch.export.Dim.DYNAMIC
    try:
        # The exporter reports its progress on stdout.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), only_errors():
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
    difference = _difference(whole, path, _inputs(model, batch=3, length=5))
    if not difference <= _TOLERANCE:
        raise HeadtoolError(
            f"the exported model differs by {difference:.1e} under ONNX Runtime; leave `onnx` out"
        )
    return difference


def _inputs(model: HuggingFaceModel, *, batch: int, length: int) -> dict[str, Tensor]:
    """Some tokens, the last example padded."""
    tokens = len(model.tokenizer)
    ids = torch.arange(batch * length).reshape(batch, length) % tokens
    mask = torch.ones_like(ids)
    mask[-1, -1] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, : length - 2]
    return {name: value.to(model.device) for name, value in inputs.items()}


def _difference(module: nn.Module, path: Path, inputs: dict[str, Tensor]) -> float:
    import onnxruntime

    from headtool.surgery.removal import relative_difference

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    arrays: dict[str, Any] = {name: value.cpu().numpy() for name, value in inputs.items()}
    with torch.inference_mode():
        expected = module(**inputs)
    return relative_difference(torch.from_numpy(session.run(None, arrays)[0]), expected.cpu())
