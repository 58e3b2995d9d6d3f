"""What models write under all single-head masks: shared work against decoding each from scratch.

Translations, or what a language model continues prompts with (data with prompt and answer).

From scratch is the library's own search (fairseq's SequenceGenerator, or ``generate``), batched and
cached, over the same batches. Times are the process's own, on as many threads as OMP_NUM_THREADS
says: a busy machine disturbs them less than the clock's. The hypotheses are compared as well.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from headtool.data import load_data
from headtool.engine.decoding import Search, translate
from headtool.heads import KINDS, HeadMask
from headtool.models import load_model
from headtool.results.hypotheses import Hypotheses

T = TypeVar("T")


def add(spent: np.ndarray, work: Callable[[], T]) -> tuple[float, float, T]:
    """Seconds of the process and of the clock, added to those spent, and the result."""
    process, clock = time.process_time(), time.perf_counter()
    result = work()
    return (
        spent[0] + time.process_time() - process,
        spent[1] + time.perf_counter() - clock,
        result,
    )


def different(fast: Hypotheses, plain: Hypotheses) -> int:
    """How many hypotheses differ."""
    pairs = zip((fast.whole, *fast.masked), (plain.whole, *plain.masked), strict=True)
    return sum(a != b for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:mt")
    parser.add_argument("--data", default="builtin:mt/test")
    parser.add_argument("--limit", type=int, default=100, help="sentences")
    parser.add_argument("--masks", type=int, help="so many heads, evenly spread (default: all)")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--max-new-tokens", type=int, help="default: the model's own")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    options = parser.parse_args()

    model = load_model(options.model)
    data = load_data(options.data, limit=options.limit)
    examples = model.encode(data, batch_tokens=options.batch_tokens)
    heads = model.sites.heads
    count = min(options.masks or len(heads), len(heads))
    chosen = [heads[int(i)] for i in np.linspace(0, len(heads) - 1, count)]
    masks = [HeadMask.without(model.sites, [head]) for head in chosen]
    print(f"{options.model}: {len(masks)} of {len(heads)} heads, {len(examples)} sentences")
    for beam in options.beams:
        search = Search(beam=beam, max_length=options.max_new_tokens)
        translate(model, examples.head(2), masks[:1], search=search)  # warm up
        spent = np.zeros((2, 2))  # [shared, from scratch] x [process, clock]
        wrong, unchanged = 0, np.zeros(len(masks))
        for index in examples.batches():  # in turns, so that a busy spell meets both
            batch = examples.take(index)
            *spent[0], fast = add(spent[0], lambda: translate(model, batch, masks, search=search))  # noqa: B023
            *spent[1], plain = add(
                spent[1],
                lambda: translate(model, batch, masks, search=search, fast=False),  # noqa: B023
            )
            wrong += different(fast, plain)
            unchanged += fast.unchanged * len(batch) / len(examples)
        ours, theirs = spent
        print(
            f"beam {beam}: from scratch {theirs[0]:.1f} s, shared {ours[0]:.1f} s: "
            f"{theirs[0] / ours[0]:.2f} times as fast ({theirs[1] / ours[1]:.2f} by the clock); "
            f"{wrong} of {(1 + len(masks)) * len(examples)} hypotheses differ",
            flush=True,
        )
        shares = []
        for kind in KINDS:
            rows = [
                share for share, head in zip(unchanged, chosen, strict=True) if head.kind == kind
            ]
            if rows:
                shares.append(f"{kind} {np.mean(rows):.1%} ({min(rows):.1%} to {max(rows):.1%})")
        print(f"  unchanged sentences: {', '.join(shares)}")


if __name__ == "__main__":
    main()
