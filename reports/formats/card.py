"""The page of a pruned model's folder, which is its model card on the hub: README.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.heads import HeadMask
from headtool.reports.formats.markdown import escape_markdown
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import number, sentence, stage_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CARD", "Card"]

CARD = "README.md"

_PIPELINES = {
    ("classification", "text"): "text-classification",
    ("classification", "images"): "image-classification",
    ("classification", "sound"): "audio-classification",
    ("causal-lm", "text"): "text-generation",
    ("masked-lm", "text"): "fill-mask",
}
_LOADERS = {
    "text": ("AutoTokenizer", "tokenizer"),
    "images": ("AutoImageProcessor", "processor"),
    "sound": ("AutoFeatureExtractor", "extractor"),
}
_NAMES = ("builtin:", "hub:", "memory:")
_SCHEME = re.compile(r"[a-z][a-z-]*:")
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_CODE = re.compile(r"\\`((?:\w|\\_|-)+)\\`")  # names of options, as they are escaped
_SIZES = {
    "parameters": "parameters",
    "attention_parameters": "of attention",
    "flops": "operations of a forward pass",
    "attention_flops": "of attention",
}


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a pruned model's card says: what was removed, by what, and at what cost.

    Attributes
    ----------
    model
        SPEC of the whole model.
    library, kind, task
        Its library, class and task.
    mask
        Closes the heads that are gone.
    baked
        Whether the model keeps its size, and any software loads it.
    method
        What scored the heads; empty where no scores chose them.
    source
        What the heads were chosen by, and what was done besides, as the record has it.
    savings
        Sizes before and after, the table ``savings``.
    recovery
        What the model was worth before and after, the table ``recovery``.
    measured_on, examples
        SPEC of the data of that, and how many examples these are.
    notes
        What a reader must know.
    reads
        What the model reads: text, images or sound.
    """

    model: str
    library: str
    kind: str
    task: str
    mask: HeadMask
    baked: bool
    method: str
    source: Mapping[str, Any]
    savings: pd.DataFrame
    recovery: pd.DataFrame
    measured_on: str = ""
    examples: int = 0
    notes: Sequence[str] = ()
    reads: str = "text"

    def write(self, folder: Path, *, place: str, on_hub: bool = False) -> None:
        """Write it into a folder.

        Parameters
        ----------
        folder
            The folder, which is still being made.
        place
            Where the model will be: a folder, or its name on the hub.
        on_hub
            Whether it is the latter.
        """
        text = "\n".join(self._lines(place, on_hub)).rstrip() + "\n"
        (folder / CARD).write_text(text, encoding="utf-8")

    def _lines(self, place: str, on_hub: bool) -> Iterator[str]:
        gone, total = len(self.mask.closed), self.mask.sites.n_heads
        name = escape_markdown(_end(self.model))
        yield from self._front()
        yield from (f"# {name} without {gone} of its {total} attention heads", "")
        done = "which put out nothing now; the model keeps its size" if self.baked else "for good"
        yield (
            f"headtool removed {gone} of {total} attention heads from {name} "
            f"({escape_markdown(self.kind)}), {done}."
        )
        yield from ("", "## How to load it", "", *self._loading(place, on_hub), "")
        yield from ("## What was removed", "", *self._removed(), "")
        yield from ("## What that costs", "", *self._costs(), "")
        if len(self.savings):
            yield from ("## Size", "", *self._sizes(), "")
        if self.notes:
            yield from ("## To keep in mind", "")
            yield from (f"- {_with_code(sentence(note))}" for note in self.notes)

    def _front(self) -> Iterator[str]:
        """YAML that the hub reads; JSON's strings are strings of YAML."""
        yield "---"
        if self.library == "transformers":
            yield "library_name: transformers"
        if _ON_HUB.fullmatch(self.model) and not Path(self.model).exists():
            yield f"base_model: {json.dumps(self.model)}"
        if (self.task, self.reads) in _PIPELINES:
            yield f"pipeline_tag: {_PIPELINES[self.task, self.reads]}"
        yield from ("tags:", "- headtool", "- pruned", "- attention-heads", "---", "")

    def _loading(self, place: str, on_hub: bool) -> Iterator[str]:
        where = json.dumps(visible(place))
        if self.baked and self.library == "transformers":
            loader, part = _LOADERS[self.reads]
            yield from (
                "Any software that loads the whole model loads this one:",
                "",
                "```python",
                f"from transformers import {loader}, {self.kind}",
                "",
                f"model = {self.kind}.from_pretrained({where})",
                f"{part} = {loader}.from_pretrained({where})",
                "```",
            )
            if self.task == "causal-lm":
                yield from ("", "lm-evaluation-harness takes it as a model of type `hf`.")
        elif self.baked:
            yield f"{self.library} loads the checkpoint here like that of the whole model."
        else:
            yield from (
                "Its layers have other sizes than the configuration says, which headtool knows of:",
                "",
                "```python",
                "import headtool",
            )
            if on_hub:
                yield from ("from huggingface_hub import snapshot_download", "")
                yield f"model = headtool.load_pruned(snapshot_download({where}))"
            else:
                yield from ("", f"model = headtool.load_pruned({where})")
            yield from (
                *("```", ""),
                f"It is a {escape_markdown(self.kind)} of {self.library}, and can be trained and "
                "used as any other. Every command of headtool takes the folder as `--model`.",
            )

    def _removed(self) -> Iterator[str]:
        asked = self.source
        if asked.get("verdict"):
            how = f"The heads that `headtool test` finds {asked['verdict']}"
        elif self.method:
            many = asked.get("remove") or f"all but {asked.get('keep_heads')}"
            how = f"The heads with the lowest scores by {self.method} ({many})"
        else:
            how = "The heads that a mask names"
        yield escape_markdown(how) + ":"
        yield from ("", "`" + " ".join(map(str, self.mask.closed)) + "`", "")
        told = {
            "unit": ("group", "Whole key/value groups were removed."),
            "keep_one_per_layer": (True, "Every layer keeps at least one head."),
            "rescale": (
                "least-squares",
                "The scales of the heads that stay were refitted by least squares (Kwon et al. "
                "2022).",
            ),
            "replace": (
                None,
                "What the heads put out was replaced by constants in the biases: {}.",
            ),
        }
        for key, (wanted, text) in told.items():
            value = asked.get(key)
            if value and wanted in (None, value):
                yield from (escape_markdown(text.format(value)), "")
        if (tuned := asked.get("finetune")) is not None:
            data = escape_markdown(_end(str(tuned.get("data", ""))))
            low = ", by low-rank updates (LoRA)" if tuned.get("lora") else ""
            yield f"The rest was trained for {tuned.get('steps')} steps on {data}{low}."

    def _costs(self) -> Iterator[str]:
        if not len(self.recovery):
            yield "Quality was not measured; `headtool prune --data` does so."
            return
        data = escape_markdown(_end(self.measured_on))
        yield f"Measured on {self.examples:,} examples of {data}; intervals of 95% are over these."
        yield from ("", "| metric | model | value | change | interval of the change |")
        yield "| --- | --- | ---: | ---: | ---: |"
        for metric, rows in self.recovery.groupby("metric", sort=False):
            for place, row in enumerate(rows.to_dict("records")):
                last = len(rows) == 2 and place
                cells = [str(metric), "pruned" if last else stage_name(str(row["stage"]))]
                cells += [number(row["value"])]
                cells += (
                    [number(row["delta"]), f"{number(row['low'])} to {number(row['high'])}"]
                    if place
                    else ["", ""]
                )
                yield "| " + " | ".join(map(escape_markdown, cells)) + " |"

    def _sizes(self) -> Iterator[str]:
        row = self.savings.iloc[0]
        yield from ("| | whole | pruned | saved |", "| --- | ---: | ---: | ---: |")
        for name, label in _SIZES.items():
            before, after = int(row[name]), int(row[f"{name}_after"])
            yield f"| {label} | {before:,} | {after:,} | {1 - after / before:.1%} |"
        length = int(row["sequence_length"])
        yield from (
            "",
            f"Operations are those of {length} tokens. Time was not measured here; "
            "`headtool speed --pruned` does so on your machine.",
        )


def _with_code(text: str) -> str:
    """Escape a note, but for the names of options in it."""
    return _CODE.sub(lambda found: f"`{found[1]}`".replace("\\", ""), escape_markdown(text))


def _end(spec: str) -> str:
    """A model or data set without the folders above it, which are nobody's business."""
    if spec.startswith(_NAMES) or (_ON_HUB.fullmatch(spec) and not Path(spec).exists()):
        return spec
    found = _SCHEME.match(spec)
    scheme = found[0] if found else ""
    parts = spec.removeprefix(scheme).split(",")
    return scheme + ",".join(Path(part).name or part for part in parts)
