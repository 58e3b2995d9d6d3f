"""Construct the weights of ``builtin:planted``: nothing is trained.

The model is an ordinary GPT-2. Its residual stream is cut into orthogonal subspaces in a basis that
the seed draws:

=======  ====  =====================================================================================
part     size  what stands there
=======  ====  =====================================================================================
token      16  the code of the token at this position
place      16  the position: cosine and sine at eight frequencies
before     16  the code of the token before; the previous-token head writes it
output     16  the code of the token to come; only this is read by the unembedding
start       1  whether this is the first position, where heads look that find nothing
topic       3  whether the token is a thing of one of the three sorts
question    3  whether it asks for one of them
claim      12  answers, as the answering heads give them
idle       10  what idle heads and the feed-forward layers write and read
constant    2  what the head of constant output writes, and nothing reads
=======  ====  =====================================================================================

Codes of tokens are the 80 vectors of five mutually unbiased bases of 16 dimensions: two of them are
orthogonal, or their inner product is 1/4. Layer norms are made linear by a large epsilon, so
that no head works by scaling others. The last feed-forward layer turns a claim, made once or twice,
into the same answer: either of the answering heads is enough, and a faint claim is no answer. Heads
are turned at random inside their own
dimensions, which changes nothing of what they do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from headtool.builtin.planted import ANSWERS, HEADS, LAYERS, QUESTIONS, SYLLABLES, Truth

__all__ = ["EPSILON", "INNER", "POSITIONS", "SPECIAL", "WIDTH", "vocabulary", "weights"]

Array = NDArray[np.float64]

WIDTH, HEAD_WIDTH, INNER, POSITIONS = 96, 24, 48, 128

_SIZES = {
    "token": 16,
    "place": 16,
    "before": 16,
    "output": 16,
    "start": 1,
    "topic": 3,
    "question": 3,
    "claim": 12,
    "idle": 10,
    "constant": 2,
}
SPECIAL = ("<s>", "<unk>", "<pad>")
"""Start, unknown word and padding: tokens 0 to 2."""

_FREQUENCIES = (4, 13, 31, 38, 39, 49, 50, 56)
"""Waves in 128 positions: no two positions have more than .35 of a position's own product."""

EPSILON = 1e8
"""Of the layer norms: so large that they are linear."""

_COPY, _ANSWER, _REPEAT = 8.0, 8.0, 2.5
"""Logits that the induction head, a claimed answer and the harmful head give to their tokens."""

_FAINT, _FULL, _STEEP = 0.4, 0.7, 20.0
"""From where a claim begins to be heard, from where it is heard in full, and the slope between."""

_HINT = 0.03, 0.1
"""Logits that an idle head gives to the token that it happens to look at, or takes from it."""


def vocabulary() -> tuple[str, ...]:
    """Return the words of the model, by token id."""
    return (*SPECIAL, *SYLLABLES, *ANSWERS, *ANSWERS.values(), *QUESTIONS)


def weights(known: Truth) -> dict[str, Array]:
    """Compute the weights of a planted model by name.

    Parameters
    ----------
    known
        What its heads are to do.
    """
    rng = np.random.default_rng([known.seed, 11])
    parts = _subspaces(rng)
    codes = _codes()
    state = _embeddings(rng, parts, codes)
    heads = _Heads(rng, parts, codes)
    by_place = {(head.layer, head.index): work for work, head in known.heads.items()}
    for layer in range(LAYERS):
        made = [heads.made(by_place[layer, index]) for index in range(HEADS)]
        name = f"transformer.h.{layer}"
        # As GPT-2 has it: [in, out], with queries, keys and values side by side.
        state[f"{name}.attn.c_attn.weight"] = np.hstack(
            [head[part] for part in ("query", "key", "value") for head in made]
        )
        state[f"{name}.attn.c_attn.bias"] = np.hstack(
            [head[f"{part} bias"] for part in ("query", "key", "value") for head in made]
        )
        state[f"{name}.attn.c_proj.weight"] = np.vstack([head["output"] for head in made])
        state[f"{name}.attn.c_proj.bias"] = np.zeros(WIDTH)
        is_last = layer == LAYERS - 1
        feed = _feed_forward(rng, parts, codes if is_last else {})
        state |= {f"{name}.mlp.{part}": value for part, value in feed.items()}
    for norm in (*(f"h.{i}.ln_{j}" for i in range(LAYERS) for j in (1, 2)), "ln_f"):
        state[f"transformer.{norm}.weight"] = np.full(WIDTH, math.sqrt(EPSILON))
        state[f"transformer.{norm}.bias"] = np.zeros(WIDTH)
    return state


def _subspaces(rng: np.random.Generator) -> dict[str, Array]:
    """Draw an orthonormal basis for each part, rows of [size, width], all without a mean."""
    drawn = rng.normal(size=(WIDTH, WIDTH))
    drawn[:, 0] = 1.0  # layer norm takes the mean away: nothing may stand there
    basis = np.linalg.qr(drawn)[0].T[1:]
    ends = np.cumsum(list(_SIZES.values()))
    return dict(zip(_SIZES, np.split(basis, ends[:-1]), strict=True))


def _codes() -> dict[str, Array]:
    """Give every word but the special ones its code."""
    sylvester = np.array([[1.0]])
    for _ in range(4):
        sylvester = np.kron(sylvester, [[1, 1], [1, -1]])
    a, b, c, d = ((np.arange(16) >> bit) & 1 for bit in range(4))
    # Signs by quadratic forms; any two differ by a bent function.
    forms = (0 * a, a * c + b * d, a * d + b * c + b * d, a * c + a * d + b * c)
    bases = [np.eye(16), *((-1.0) ** form * sylvester / 4 for form in forms)]
    topics, answers = bases[0], bases[1]
    codes = {thing: topics[i] for i, thing in enumerate(ANSWERS)}
    codes |= {answer: answers[i] for i, answer in enumerate(ANSWERS.values())}
    codes |= {question: topics[len(ANSWERS) + i] for i, question in enumerate(QUESTIONS)}
    return codes | dict(zip(SYLLABLES, np.vstack(bases[2:])[: len(SYLLABLES)], strict=True))


def _places() -> Array:
    """Positions in waves, [positions, 16], each of length 1."""
    angles = 2 * np.pi * np.outer(np.arange(POSITIONS), _FREQUENCIES) / POSITIONS
    return np.hstack([np.cos(angles), np.sin(angles)]) / math.sqrt(len(_FREQUENCIES))


def _one_back() -> Array:
    """What turns a position into the one before: [16, 16], for rows."""
    angles = -2 * np.pi * np.array(_FREQUENCIES) / POSITIONS
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.block([[cos, sin], [-sin, cos]])


def _embeddings(
    rng: np.random.Generator, parts: dict[str, Array], codes: dict[str, Array]
) -> dict[str, Array]:
    """Embeddings of tokens and positions, and the unembedding."""
    words = vocabulary()
    tokens = rng.normal(0, 0.2, (len(words), _SIZES["idle"])) @ parts["idle"]
    unembedding = np.zeros((len(words), WIDTH))
    for number, word in enumerate(words):
        if word in codes:
            tokens[number] += codes[word] @ parts["token"]
            unembedding[number] = codes[word] @ parts["output"]
        for sort, (question, things) in enumerate(QUESTIONS.items()):
            if word == question:
                tokens[number] += parts["question"][sort]
            if word in things:
                tokens[number] += parts["topic"][sort]
    tokens[0] += parts["start"][0]
    places = _places() @ parts["place"]
    places += rng.normal(0, 0.1, (POSITIONS, _SIZES["idle"])) @ parts["idle"]
    return {
        "transformer.wte.weight": tokens,
        "transformer.wpe.weight": places,
        "lm_head.weight": unembedding,
    }


def _feed_forward(
    rng: np.random.Generator, parts: dict[str, Array], codes: dict[str, Array]
) -> dict[str, Array]:
    """Make a feed-forward layer of idle units, and of those that hear claims where there are codes.

    A claim is heard by two units: what the first puts out beyond a point, the second takes away.
    """
    claims = parts["claim"] if codes else parts["claim"][:0]
    spare = INNER - 2 * len(claims)
    read = np.vstack([parts["token"], parts["idle"]])
    heard = _STEEP * claims.T
    answers = [_ANSWER * codes[answer] @ parts["output"] for answer in ANSWERS.values() if codes]
    said = np.reshape(answers, (-1, WIDTH)) / (_STEEP * (_FULL - _FAINT))
    idle = rng.normal(0, 0.1, (spare, _SIZES["idle"])) @ parts["idle"]
    starts = [np.full(len(claims), -_STEEP * point) for point in (_FAINT, _FULL)]
    return {
        "c_fc.weight": np.hstack([heard, heard, read.T @ rng.normal(0, 0.3, (len(read), spare))]),
        "c_fc.bias": np.hstack([*starts, rng.normal(0, 0.1, spare)]),
        "c_proj.weight": np.vstack([said, -said, idle]),
        "c_proj.bias": np.zeros(WIDTH),
    }


class _Heads:
    """Makes heads: what they look for, what they find there, and where they write it."""

    def __init__(
        self, rng: np.random.Generator, parts: dict[str, Array], codes: dict[str, Array]
    ) -> None:
        self.rng = rng
        self.parts = parts
        self.codes = codes

    def made(self, work: str) -> dict[str, Array]:
        """Make the head that does some work."""
        part = self.parts
        name = work.partition("-")[0]
        if name == "previous":
            return self._head(
                part["place"].T @ _one_back(), part["place"].T, 12.0, write=part["before"]
            )
        if name == "induction":
            return self._head(
                part["token"].T, part["before"].T, 15.0, start=0.7, write=_COPY * part["output"]
            )
        if name == "answer":
            things = np.array([self.codes[thing] for thing in ANSWERS])
            return self._head(
                part["question"].T,
                part["topic"].T,
                12.0,
                start=0.5,
                write=things.T @ part["claim"],
            )
        if name == "repeating":
            return self._head(
                part["place"].T, part["place"].T, 12.0, write=_REPEAT * part["output"]
            )
        return self._constant() if name == "constant" else self._idle(int(work.split("-")[1]))

    def _head(
        self, query: Array, key: Array, sharpness: float, *, write: Array, start: float = 0.0
    ) -> dict[str, Array]:
        """Make a head that reads tokens where a key is equal to the query.

        Parameters
        ----------
        query, key
            What is compared, each [width, size].
        sharpness
            Score of a key that is equal.
        write
            What is written for each dimension of the token's code, [16, width].
        start
            Score of the first position, as a share of `sharpness`.
        """
        root = math.sqrt(sharpness * math.sqrt(HEAD_WIDTH))
        queries, keys = _wide(root * query), _wide(root * key)
        bias = np.zeros(HEAD_WIDTH)
        bias[-1] = root * start
        keys[:, -1] += root * self.parts["start"][0]
        values, output = _wide(self.parts["token"].T), _wide(write.T).T
        # Values and outputs of heads have no natural scale; the share of each is evened out.
        even = math.sqrt(np.linalg.norm(output) / np.linalg.norm(values))
        return self._turned(queries, bias, keys, even * values, np.zeros(HEAD_WIDTH), output / even)

    def _constant(self) -> dict[str, Array]:
        """Make a head of large constant output that nothing reads."""
        queries, keys = self._looking()
        values = np.zeros((WIDTH, HEAD_WIDTH))
        bias = self.rng.normal(size=HEAD_WIDTH)
        bias *= 40 / np.linalg.norm(bias)
        output = self.rng.normal(size=(HEAD_WIDTH, 2)) @ self.parts["constant"]
        return self._turned(queries, np.zeros(HEAD_WIDTH), keys, values, bias, output)

    def _idle(self, number: int) -> dict[str, Array]:
        """Make a head with weights as large as those of others, and hardly an effect.

        The effect is good for one head and bad for the next, so that no effect at all is the
        middle between them.
        """
        rng = self.rng
        queries, keys = self._looking()
        read = np.vstack([self.parts["token"], self.parts["idle"]])
        size = rng.uniform(2, 5) / math.sqrt(HEAD_WIDTH)
        values = read.T @ rng.normal(0, size / 4, (len(read), HEAD_WIDTH))
        output = rng.normal(0, size / 4, (HEAD_WIDTH, _SIZES["idle"])) @ self.parts["idle"]
        hint = rng.uniform(*_HINT) * (-1) ** number
        output += hint * np.linalg.pinv(self.parts["token"] @ values) @ self.parts["output"]
        bias = rng.normal(0, 0.1, HEAD_WIDTH)
        return self._turned(queries, np.zeros(HEAD_WIDTH), keys, values, bias, output)

    def _looking(self) -> tuple[Array, Array]:
        """Queries and keys that look at something or other."""
        read = np.vstack([self.parts[part] for part in ("token", "place", "idle")])
        scale = math.sqrt(self.rng.uniform(8, 30) * math.sqrt(HEAD_WIDTH) / HEAD_WIDTH)
        queries, keys = (
            read.T @ self.rng.normal(0, scale, (len(read), HEAD_WIDTH)) for _ in range(2)
        )
        return queries, keys

    def _turned(
        self, queries: Array, bias: Array, keys: Array, values: Array, constant: Array, out: Array
    ) -> dict[str, Array]:
        """Turn queries with keys, and values with outputs, inside the head's own dimensions."""
        looking, moving = (
            np.linalg.qr(self.rng.normal(size=(HEAD_WIDTH, HEAD_WIDTH)))[0] for _ in range(2)
        )
        return {
            "query": queries @ looking,
            "query bias": bias @ looking,
            "key": keys @ looking,
            "key bias": np.zeros(HEAD_WIDTH),
            "value": values @ moving,
            "value bias": constant @ moving,
            "output": moving.T @ out,
        }


def _wide(matrix: Array) -> Array:
    """Fill up the columns of a matrix to those of a head."""
    return np.pad(matrix, ((0, 0), (0, HEAD_WIDTH - matrix.shape[1])))
