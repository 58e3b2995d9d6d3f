"""Retrieval heads (Wu et al. 2024): what a head looks at while the model copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.data import TextData
from headtool.engine.counting import unit_work
from headtool.engine.observation import Summary, observe
from headtool.engine.units import Unit, UnitResult, cut, run_units
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import influence_stderr, ratio_of_sums
from headtool.methods.needles import Needle, hide_needles, texts_of
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Task
from headtool.work import Passes, Size

__all__ = ["Retrieval"]

_LONGEST = 256  # tokens of a context where no length is asked for
_RECALLED = 0.5  # share of a needle that the released code wants to see copied


@dataclass(frozen=True)
class Retrieval(Method):
    """Share of the copied tokens of a needle that the head looks at while they are copied.

    A needle, a short span of text, is hidden in a haystack of other examples; the prompt ends with
    the needle's first tokens, and the model goes on greedily. A token that it writes is copied if
    it is one of the needle's; the head retrieves it if, at the position that writes it, its
    largest attention weight is on that token in the needle:

    ``score_h = sum over needles of |copied and retrieved by h| / sum over needles of |copied|``

    1 is a head that always looks at what is copied; a higher score means more important for
    copying. Other heads than that may matter more for other tasks. The standard error is over
    needles. The table `needles` says how much of each needle was copied.

    With ``share=needle``, as in the released code, the score is the mean over needles of the
    retrieved tokens as a share of the needle, and needles of which half or less was copied are left
    out. The paper asks questions about a hand-written needle in essays; here needles and haystacks
    are made of the data, and the question is the beginning of the needle, so that any language
    model and any tokens will do. Greedy decoding is exact: tokens are guessed to be the needle's,
    and checked by a forward pass, until none is wrong.

    References
    ----------
    Wu, Wang, Xiao, Peng & Fu 2024, "Retrieval Head Mechanistically Explains Long-Context
    Factuality", sec. 2 (code: nightdessert/Retrieval_Head).

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:planted")
    >>> examples = model.encode(headtool.load_data("builtin:planted", limit=64))
    >>> scores = headtool.get_method("retrieval")(needles=8).score(model, examples)
    >>> scores.frame.nsmallest(2, "rank")[["layer", "head", "score", "stderr"]].round(2)
        layer  head  score  stderr
    8       2     0   1.00    0.00
    11      2     3   0.04    0.03
    """

    name: ClassVar[str] = "retrieval"
    summary: ClassVar[str] = "share of copied tokens that the head looks at (language models)"
    reference: ClassVar[str] = "Wu et al. 2024"
    tasks: ClassVar[tuple[Task, ...]] = ("causal-lm",)

    needles: int = option(20, "how many needles")
    tokens: int = option(8, "tokens of a needle")
    cue: int = option(2, "how many of them the prompt ends with")
    lengths: str | None = option(
        None,
        "tokens of contexts, such as 128,256, which take turns; none: a third, two thirds and all "
        f"of what the model takes, {_LONGEST} at most",
    )
    needle: str = option(
        "text",
        "a span of text, or random tokens that the haystack does not hold",
        choices=("text", "random"),
    )
    share: str = option(
        "copied",
        "retrieved tokens as a share of the copied ones, or of the whole needle (released code)",
        choices=("copied", "needle"),
    )

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        for name, least in (("needles", 1), ("tokens", 2), ("cue", 1)):
            if getattr(self, name) < least:
                raise HeadtoolError(
                    f"retrieval.{name} must be at least {least}, got {getattr(self, name)}"
                )
        if self.cue >= self.tokens:
            raise HeadtoolError(
                f"retrieval.cue must be below retrieval.tokens ({self.tokens}), got {self.cue}"
            )
        for word in (self.lengths or "1").split(","):
            if not (word.strip().isascii() and word.strip().isdigit() and len(word) < 10):
                raise HeadtoolError(
                    f"retrieval.lengths must be numbers such as 128,256, got '{word}'"
                )

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Run every needle once to decode and once to look, and again after a wrong guess."""
        share = self.needles / size.examples
        rounds = 1 + self.tokens - self.cue
        return (Passes(forward=share * rounds, least=2 / rounds, what="needles"),)

    def compute(self, job: Job) -> Scored:
        """Decode, then look where heads look."""
        pieces = job.model.pieces()
        needles = hide_needles(
            texts_of(job.examples, pieces),
            prefix=pieces.prefix,
            number=self.needles,
            size=self.tokens,
            cue=self.cue,
            lengths=self._lengths(pieces.max_length, len(pieces.prefix)),
            kind=self.needle,
            seed=job.seed,
        )
        written = _written(job, needles)
        copied = np.array(
            [
                sum(token in needle.tokens for token in tokens)
                for needle, tokens in zip(needles, written, strict=True)
            ],
            dtype=np.float64,
        )
        answers = float(len(needles[0].answer))
        counted = copied > 0 if self.share == "copied" else copied > _RECALLED * answers
        if not counted.any():
            raise HeadtoolError(
                f"{job.model.spec} copied {int(copied.sum())} of {int(answers) * len(needles)} "
                f"tokens of {len(needles)} needles, so that no head can be seen to retrieve; "
                "use a model that copies, or a larger retrieval.cue"
            )
        looks = _Looks(job, needles, written)
        observe(
            job.model,
            _examples(job, needles, written),
            [looks],
            execute=job.execute,
            progress=job.progress,
        )
        base = copied if self.share == "copied" else np.full(len(needles), answers)
        score, influence = ratio_of_sums(
            looks.hits[counted], np.repeat(base[counted, None], job.sites.n_heads, axis=1)
        )
        table = pd.DataFrame(
            {
                "context": [len(needle.prompt) + len(needle.answer) for needle in needles],
                "start": [needle.start for needle in needles],
                "tokens": int(answers),
                "copied": copied.astype(np.int64),
                "counted": counted,
            }
        )
        return Scored(score, influence_stderr(influence), tables={"needles": table})

    def _lengths(self, most: int, prefix: int) -> list[int]:
        """How long contexts are to be."""
        least = prefix + 2 * self.tokens + 1
        if self.lengths is not None:
            asked = [int(word) for word in self.lengths.split(",")]
            for length in asked:
                if not least <= length <= most:
                    raise HeadtoolError(
                        f"retrieval.lengths must be from {least} (the needle, twice, and a token) "
                        f"to {most} (what the model takes), got {length}"
                    )
            return asked
        longest = min(most, _LONGEST)
        if longest < least:
            raise HeadtoolError(
                f"the model takes {most} tokens, and a needle of {self.tokens} needs {least}; use "
                "a smaller retrieval.tokens"
            )
        return [max(least, longest * part // 3) for part in (1, 2, 3)]


def _examples(job: Job, needles: Sequence[Needle], continued: Sequence[Sequence[int]]) -> Examples:
    """Prompts with what comes after them, as a data set."""
    pieces = job.model.pieces()
    ids = [(*needle.prompt, *after) for needle, after in zip(needles, continued, strict=True)]
    data = TextData("needles", "text", {"text": ("",) * len(ids)})
    lengths = np.array([len(row) for row in ids], dtype=np.int64)
    rows = tuple(pieces.row(row) for row in ids)
    return Examples(data, rows, lengths, job.examples.batch_tokens)


def _written(job: Job, needles: Sequence[Needle]) -> list[list[int]]:
    """Decode greedily: guess the needle's tokens, and keep those up to the first wrong one."""
    written: list[list[int]] = [[] for _ in needles]
    while unfinished := [i for i, n in enumerate(needles) if len(written[i]) < len(n.answer)]:
        asked = [needles[i] for i in unfinished]
        guesses = [[*written[i], *needles[i].answer[len(written[i]) :]][:-1] for i in unfinished]
        examples = _examples(job, asked, guesses)
        done = run_units(
            cut(examples.batches()),
            lambda examples=examples: partial(_predicted, job.model, examples),  # type: ignore[misc]
            label="needles",
            execute=job.execute,
            progress=job.progress,
            work=unit_work(examples, Passes(forward=1)),
        )
        for unit, result in done:
            for row, place in enumerate(unit.examples.tolist()):
                needle, guess = asked[place], guesses[place]
                first = len(needle.prompt) - 1
                found = result["tokens"][row].tolist()
                kept = written[unfinished[place]]
                for step in range(len(kept), len(needle.answer)):
                    kept.append(found[first + step])
                    if step < len(guess) and kept[-1] != guess[step]:
                        break
    return written


def _predicted(model: ModelAdapter, examples: Examples, unit: Unit) -> UnitResult:
    """The most probable next token after every position of one batch."""
    with torch.inference_mode():
        tokens = model.next_tokens(model.collate(examples, unit.examples))
    return {"tokens": tokens.cpu().numpy()}


class _Looks:
    """Per needle and head: copied tokens at which the head's largest weight lies."""

    def __init__(
        self, job: Job, needles: Sequence[Needle], written: Sequence[Sequence[int]]
    ) -> None:
        self.hits = np.zeros((len(needles), job.sites.n_heads))
        self.sites = job.sites
        self.needles = needles
        self.written = written

    def summarise(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> Summary:
        """Find the largest weights of one site of one batch."""
        if site not in self.sites.items:
            return {}
        best = attention.argmax(dim=-1).cpu().numpy()  # [B, H, T]
        hits = np.zeros(best.shape[:2])
        for row, place in enumerate(batch.index.tolist()):
            needle = self.needles[place]
            for step, token in enumerate(self.written[place]):
                looked = best[row, :, len(needle.prompt) - 1 + step]
                inside = (needle.start <= looked) & (looked < needle.end)
                at = np.array(needle.prompt)[np.minimum(looked, len(needle.prompt) - 1)]
                hits[row] += inside & (at == token)
        return {"hits": hits}

    def add(self, site: AttentionSite, examples: NDArray[np.int64], summary: Summary) -> None:
        """Put the hits of one site of one batch in their place."""
        self.hits[examples, self.sites.columns(site)] = summary["hits"]
