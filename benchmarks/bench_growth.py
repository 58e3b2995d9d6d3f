"""How time and memory grow as examples, length, layers, heads and masks are doubled.

``python benchmarks/bench_growth.py`` runs each primitive on random BERT classifiers (`translate` on
the built-in translation model), doubles one size at a time, and fits the exponents of processor
time and of the largest sum of living tensors. An exponent of 1 means twice as much for twice the
size. Beside each stands the most that theory allows, with a mark where a fit is above it;
``--figure FILE`` draws the curves. Weights are left out of the memory, and batches hold the same
number of tokens throughout.
"""

from __future__ import annotations

import argparse
import copy
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import BertForSequenceClassification

from headtool.data import TextData, load_data
from headtool.engine.decoding import translate
from headtool.engine.differentiation import differentiate
from headtool.engine.evaluation import evaluate
from headtool.engine.observation import observe
from headtool.heads import HeadMask
from headtool.masks.singles import single_masks
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.huggingface.model import HuggingFaceModel

BASE = {"examples": 32, "length": 64, "layers": 4, "heads": 8, "masks": 8}
OF_TRANSLATE = {"examples": 64, "masks": 4}
DOUBLINGS = 3
WIDTH, BATCH_TOKENS = 128, 1024
SIZES = {
    "evaluate": ("examples", "length", "layers", "heads", "masks"),
    "differentiate": ("examples", "length", "layers", "heads"),
    "observe": ("examples", "length", "layers", "heads"),
    "translate": ("examples", "masks"),
}
# Attention takes length squared for an example; a batch has so many tokens and no more.
MOST_TIME = {"examples": 1, "length": 2, "layers": 1, "heads": 1, "masks": 1}
MOST_MEMORY = {"examples": 0, "length": 1, "layers": 1, "heads": 1, "masks": 0}
# All masks of a unit, up to 64, decode side by side.
MOST_MEMORY_OF_TRANSLATE = {"examples": 0, "masks": 1}
SLACK = 0.15  # for noise, and for what does not grow


class Living(TorchDispatchMode):
    """Counts the bytes of all tensors that are made inside and still there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        old = {self._key(leaf) for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)}
        for leaf in tree_leaves(result):
            if torch.is_tensor(leaf) and self._key(leaf) not in old | self._known.keys():
                storage = leaf.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                self._known[key] = weakref.ref(storage, lambda _, k=key, s=size: self._gone(k, s))
                self.now += size
                self.most = max(self.most, self.now)
        return result

    @staticmethod
    def _key(tensor: torch.Tensor) -> int:
        return tensor.untyped_storage()._cdata

    def _gone(self, key: int, size: int) -> None:
        self._known.pop(key, None)
        self.now -= size


class Nothing:
    """A statistic that looks at all attention and keeps one number."""

    value = 0.0

    def summarise(self, site: Any, attention: Any, contexts: Any, batch: Any) -> dict[str, Any]:
        """Look at one site of one batch."""
        return {"largest": attention.amax().cpu().numpy()}

    def add(self, site: Any, examples: Any, summary: Mapping[str, Any]) -> None:
        """Keep the largest."""
        self.value = max(self.value, float(summary["largest"]))


def classifier(like: ModelAdapter, layers: int, heads: int) -> ModelAdapter:
    """A BERT classifier with random weights."""
    torch.manual_seed(0)
    config = copy.deepcopy(like.config)
    config.num_hidden_layers, config.num_attention_heads = layers, heads
    config.hidden_size, config.intermediate_size = WIDTH, 4 * WIDTH
    config.max_position_embeddings = 1024
    tokenizer = copy.deepcopy(like.tokenizer)
    tokenizer.model_max_length = config.max_position_embeddings
    module = BertForSequenceClassification(config).eval()
    return HuggingFaceModel("random", like.task, module, tokenizer)


def texts(like: ModelAdapter, count: int, length: int) -> TextData:
    """Examples of so many tokens each."""
    words = [one for one in like.tokenizer.get_vocab() if one.isalpha() and one.islower()]
    rng = np.random.default_rng(0)
    rows = [" ".join(rng.choice(words[:20], length)) for _ in range(count)]
    label = str(like.labels[0])
    return TextData("random", "classification", {"text_a": tuple(rows), "label": (label,) * count})


def prepared(primitive: str, size: Mapping[str, int], like: ModelAdapter) -> Callable[[], Any]:
    """What runs a primitive on a problem of some size."""
    if primitive == "translate":
        translator = load_model("builtin:mt", device="cpu")
        sentences = load_data("builtin:mt/test", limit=size["examples"])
        encoded = translator.encode(sentences, batch_tokens=BATCH_TOKENS // 4)
        return lambda: translate(translator, encoded, some_masks(translator, size["masks"]))
    model = classifier(like, size["layers"], size["heads"])
    examples: Examples = model.encode(
        texts(like, size["examples"], size["length"]), batch_tokens=BATCH_TOKENS
    )
    if primitive == "differentiate":
        return lambda: differentiate(model, examples)
    if primitive == "observe":
        return lambda: observe(model, examples, [Nothing()])
    return lambda: evaluate(model, examples, some_masks(model, size["masks"]))


def some_masks(model: ModelAdapter, count: int) -> list[HeadMask]:
    """So many masks, which close a head each, spread over the layers."""
    single = [item.mask for item in single_masks(model.sites, model.sites.heads)]
    return [single[i] for i in (np.arange(count) * len(single) // count).tolist()]


def most(primitive: str, name: str) -> tuple[int, int]:
    """Largest exponents of time and memory that theory allows."""
    memory = MOST_MEMORY_OF_TRANSLATE if primitive == "translate" else MOST_MEMORY
    return MOST_TIME[name], memory[name]


def measured(primitive: str, name: str, like: ModelAdapter) -> list[tuple[int, float, int]]:
    """Size, seconds and bytes at each doubling of one size."""
    found = []
    for doubling in range(DOUBLINGS):
        base = OF_TRANSLATE if primitive == "translate" else BASE
        size = {**base, name: base[name] * 2**doubling}
        run = prepared(primitive, size, like)
        seconds = []
        for _ in range(2):  # the first warms up
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
        with Living() as living:
            run()
        found.append((size[name], min(seconds), living.most))
    return found


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope in a plot whose axes are both logarithmic."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)[0])


def draw(rows: Mapping[tuple[str, str], list[tuple[int, float, int]]], place: Path) -> None:
    """Draw time and memory, relative to the smallest size, against the factor."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(BASE)
    figure, axes = pyplot.subplots(2, len(names), figsize=(11, 4.6), sharex=True, sharey="row")
    for column, name in enumerate(names):
        for line in range(2):
            axis = axes[line, column]
            factors = 2.0 ** np.arange(DOUBLINGS)
            axis.plot(factors, factors ** most("evaluate", name)[line], color="0.8", linewidth=4)
            for colour, primitive in enumerate(SIZES):
                found = rows.get((primitive, name))
                if found:
                    values = np.array([row[1 + line] for row in found], dtype=np.float64)
                    look = {"color": f"C{colour}", "marker": "o", "label": primitive}
                    axis.plot(factors, values / values[0], **look)
            axis.set(xscale="log", yscale="log", xticks=factors, yticks=[1, 2, 4, 8, 16])
            axis.set_xticklabels([f"{factor:g}" for factor in factors])
            axis.set_yticklabels(["1", "2", "4", "8", "16"])
            axis.minorticks_off()
            if line == 0:
                axis.set_title(name)
        axes[1, column].set_xlabel("times the size")
    axes[0, 0].set_ylabel("times the time")
    axes[1, 0].set_ylabel("times the memory")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    pyplot.rcParams["svg.hashsalt"] = "growth"  # the same file each time
    figure.savefig(place, metadata={"Date": None} if place.suffix == ".svg" else None)
    pyplot.close(figure)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=Path, default=None)
    given = parser.parse_args()
    torch.set_num_threads(1)
    like = load_model("builtin:nli", device="cpu")
    rows: dict[tuple[str, str], list[tuple[int, float, int]]] = {}
    print(
        f"{'primitive':15}{'size':10}{'doubled':>16}{'time':>8}{'most':>6}{'memory':>9}{'most':>6}"
    )
    for primitive, names in SIZES.items():
        for name in names:
            found = rows[primitive, name] = measured(primitive, name, like)
            sizes, seconds, living = zip(*found, strict=True)
            span = f"{sizes[0]} to {sizes[-1]}"
            line = f"{primitive:15}{name:10}{span:>16}"
            for values, bound in zip((seconds, living), most(primitive, name), strict=True):
                power = exponent(sizes, values)
                line += f"{power:9.2f}{'!' if power > bound + SLACK else ' '}{bound:6}"
            print(line, flush=True)
        if given.figure is not None:  # what there is so far
            draw(rows, given.figure)


if __name__ == "__main__":
    main()
