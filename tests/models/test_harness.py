"""Multiple choice against lm-evaluation-harness itself, item by item.

It has requirements of its own, so it may live in another environment: HEADTOOL_LM_EVAL names that
environment's Python, such as ``/opt/lm-eval/bin/python``; HEADTOOL_LM_EVAL_MODEL a model folder to
compare on beside a random one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from headtool import HeadMask, load_data, load_model, prune
from headtool.engine.evaluation import evaluate
from headtool.metrics import get_metric

from ..support.language_model import WORDS, language_model

PYTHON = os.environ.get("HEADTOOL_LM_EVAL", sys.executable if find_spec("lm_eval") else "")
MODEL = os.environ.get("HEADTOOL_LM_EVAL_MODEL", "")

pytestmark = pytest.mark.skipif(
    not PYTHON, reason="lm-eval is not installed, and HEADTOOL_LM_EVAL names no Python that has it"
)

TASK = """\
task: words
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
metric_list: [{{metric: acc}}, {{metric: acc_norm}}, {{metric: acc_bytes}}]
"""
SCRIPT = """\
import json, sys
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
folder, model, out = sys.argv[1:]
found = simple_evaluate(
    model="hf", model_args={"pretrained": model, "dtype": "float32", "device": "cpu"},
    tasks=["words"], task_manager=TaskManager(include_path=folder, include_defaults=False),
    bootstrap_iters=0, batch_size=4,
)
samples = sorted(found["samples"]["words"], key=lambda sample: sample["doc_id"])
items = [
    {
        "logprobs": [float(response[0]) for response in sample["filtered_resps"]],
        **{name: sample[name] for name in ("acc", "acc_norm", "acc_bytes")},
    }
    for sample in samples
]
json.dump({"results": found["results"]["words"], "items": items}, open(out, "w"))
"""


def items(words: tuple[str, ...]) -> list[dict[str, object]]:
    """A hundred items with two to five choices, one in three of them all of one word."""
    rng = np.random.default_rng(0)

    def text(low: int, high: int) -> str:
        return " ".join(rng.choice(words, size=int(rng.integers(low, high + 1))))

    rows = []
    for row in range(100):
        texts = [text(1, 1 if row % 3 == 0 else 4) for _ in range(int(rng.integers(2, 6)))]
        prompt = text(3, 12)
        rows.append({"prompt": prompt, "choices": texts, "label": int(rng.integers(len(texts)))})
    return rows


ENGLISH = (*("the", "a", "cat", "dog", "sat", "ran", "mat", "big", "girl", "day"), "naïve", "café")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["random", "pruned", *([MODEL] if MODEL else [])])
def test_equals_lm_eval_on_a_hundred_items(model: str, tmp_path: Path) -> None:
    """Of a pruned model, they read the baked folder, and headtool the smaller one."""
    folder = ours = tmp_path / "model"
    if model == "pruned":
        adapter, ours = language_model(), tmp_path / "smaller"
        mask = HeadMask.without(
            adapter.sites, [*adapter.sites.heads[:1], *adapter.sites.heads[-2:]]
        )
        for place, bake in ((folder, True), (ours, False)):
            prune(adapter, mask=mask, bake=bake, out=place)
    elif model == "random":
        adapter = language_model()
        adapter.module.float().save_pretrained(folder)
        adapter.tokenizer.save_pretrained(folder)
    else:
        folder = ours = Path(model)
    data = tmp_path / "items.jsonl"
    rows = items(ENGLISH if model == MODEL else WORDS)
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (tmp_path / "words.yaml").write_text(TASK.format(data=data), "utf-8")
    out = tmp_path / "found.json"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    subprocess.run(
        [PYTHON, "-c", SCRIPT, str(tmp_path), str(folder), str(out)],
        check=True,
        capture_output=True,
        env={**environment, "HF_DATASETS_CACHE": str(tmp_path / "cache")},
    )
    expected = json.loads(out.read_text("utf-8"))

    loaded = load_model(str(ours), device="cpu")
    found = evaluate(loaded, loaded.encode(load_data(str(data))), []).whole
    golds = [
        item["logprobs"][row["label"]] for item, row in zip(expected["items"], rows, strict=True)
    ]
    np.testing.assert_allclose(found["loss"], np.negative(golds), atol=2e-4)
    for name in ("acc", "acc_norm", "acc_bytes"):
        np.testing.assert_array_equal(found[name], [item[name] for item in expected["items"]])
        value = get_metric(name, task="causal-lm").compute(found)
        assert value == pytest.approx(expected["results"][f"{name},none"], abs=1e-12)
    assert 0.1 < found["acc"].mean() < 0.9
    assert not np.array_equal(found["acc"], found["acc_norm"])
