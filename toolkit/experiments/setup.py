"""From a model, data and a request to what every stage of a comparison works on."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from headtool.analysis.role_runs import SavedRoles, check_roles, read_roles
from headtool.analysis.subsampling import LEAST_EXAMPLES
from headtool.engine.measurement import Measures, check_data, resolve
from headtool.engine.provenance import provenance
from headtool.engine.replacement import Replacement, replacement
from headtool.errors import HeadtoolError
from headtool.experiments.inputs import (
    DataLike,
    ModelSource,
    held_list,
    open_model,
    read_data,
)
from headtool.experiments.replicates import Replicate, replicates_of
from headtool.experiments.request import CURVE_METHODS, Request, requested
from headtool.experiments.splitting import Split, split_data
from headtool.heads import Sites
from headtool.masks.order import Family, families
from headtool.methods.ablation import Ablation
from headtool.methods.base import Method
from headtool.models import check_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.results.scores import head_frame
from headtool.searching import Search

__all__ = ["Setup", "set_up"]

_LOG = logging.getLogger("headtool")


@dataclass(frozen=True, eq=False)
class Setup:
    """What a comparison works on: loaded, checked and with nothing left open.

    Attributes
    ----------
    name
        ``compare``, or ``curve``, which leaves out single heads and how far methods agree.
    request
        What was asked for.
    model
        The model.
    sites
        The sites of the heads that are up for removal.
    split
        Which examples select heads, and which show what the selection is worth.
    measures
        The metric, the loss beside it, and how to decode.
    methods
        The scoring methods.
    families
        The heads that compete for removal, and how many are gone at each point of the curves: all
        of `sites`, then where asked those of each kind.
    replicates
        The same architecture trained with other seeds.
    roles
        Roles of the model's heads; None where none were given.

    Examples
    --------
    >>> import headtool
    >>> setup = headtool.set_up("builtin:nli", methods=["magnitude"], limit=16, steps="50%")
    >>> setup.measures.metric.name, len(setup.split.selection), len(setup.split.first)
    ('accuracy', 8, 8)
    >>> setup.families[0].budgets
    (0, 16, 32)
    """

    name: Literal["compare", "curve"]
    request: Request
    model: ModelAdapter
    sites: Sites
    split: Split
    measures: Measures
    methods: tuple[Method, ...]
    families: tuple[Family, ...]
    replicates: tuple[Replicate, ...] = ()
    roles: SavedRoles | None = None

    @cached_property
    def replacement(self) -> Replacement:
        """What closed heads put out."""
        return replacement(self.request.replacement, seed=self.request.seed)

    def deal(self, examples: Examples) -> int:
        """Say how many examples get random masks of their own: all, or none.

        Parameters
        ----------
        examples
            What random masks are run on.
        """
        return len(examples) if self.measures.metric.is_mean else 0

    @cached_property
    def description(self) -> dict[str, Any]:
        """What makes it the same comparison, as JSON: an interrupted one continues only by it."""
        request, split = self.request, self.split
        return {
            **provenance(
                *(self.model, split.first, self.name, request.options),
                *(self.measures.metric.name, request.seed),
            ),
            **self.measures.described(),
            "methods": {method.name: method.settings() for method in self.methods},
            "data": split.sources,
            "selection": split.selection_source,
            "replicates": {one.spec: one.model.fingerprint for one in self.replicates},
        }


def set_up(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    data: DataLike | Sequence[DataLike] | None = None,
    request: Request | None = None,
    *,
    select_data: DataLike | None = None,
    replicates: Sequence[ModelAdapter | ModelSource | str] = (),
    roles: SavedRoles | Path | str | None = None,
    name: Literal["compare", "curve"] = "compare",
    **options: Any,
) -> Setup:
    """Load and check what a comparison works on; no head is scored yet.

    What costs least is checked first: the request, roles and data sets before a model is loaded.

    Parameters
    ----------
    model, data, request, select_data, replicates, roles
        As for `headtool.compare`.
    name
        ``compare`` or ``curve``.
    options
        Fields of `Request`, which replace those of `request`.

    Returns
    -------
    Setup
        What `headtool.compare` would work on.

    Raises
    ------
    HeadtoolError
        If request, model, data, replicates and roles do not fit together.

    Examples
    --------
    >>> import headtool
    >>> setup = headtool.set_up("builtin:nli", methods=["magnitude"], limit=16, steps="25%")
    >>> setup.families[0].budgets, setup.split.evaluation.keys()
    ((0, 8, 16, 24, 32), dict_keys(['builtin:nli/matched']))
    """
    request = requested(request, options, **({"methods": CURVE_METHODS} if name == "curve" else {}))
    if name == "curve" and request.margin is not None:
        raise HeadtoolError(
            "`margin` is for compare, which tests single heads; leave it out of a curve"
        )
    filled = replacement(request.replacement, seed=request.seed)
    known = read_roles(Path(roles)) if isinstance(roles, str | Path) else roles
    read = partial(
        read_data, limit=request.limit, limit_order=request.limit_order, seed=request.seed
    )
    texts = [read(each, model) for each in held_list(data)]
    selecting = None if select_data is None else read(select_data, model)
    for one in replicates:
        if not isinstance(one, ModelAdapter):
            source = one if isinstance(one, ModelSource) else ModelSource(one)
            check_model(source.spec)
    adapter = open_model(model)
    others = [open_model(one) for one in replicates]

    sites = adapter.sites.restrict(request.kinds)
    if known is not None:
        described = {"spec": adapter.spec, "sha256": adapter.fingerprint}
        check_roles(known, described, head_frame(sites))
    groups = _families(sites, request)
    measures = resolve(adapter, request.metric, request.search)
    if measures.search is not None:
        filled.check_generated()
    for text in (*texts, *([] if selecting is None else [selecting])):
        check_data(measures.metric, text)
    tokenise = partial(split_data, batch_tokens=request.batch_tokens, seed=request.seed)
    split = tokenise(adapter, texts, selecting)
    for note in split.notes:
        _LOG.warning("%s", note)
    for examples in split.evaluation.values():
        filled.check(examples)
    _check_stability(request.stability, split)
    return Setup(
        name=name,
        request=request,
        model=adapter,
        sites=sites,
        split=split,
        measures=measures,
        methods=tuple(
            _decoding_alike(method, measures.search, request.search.max_length)
            for method in request.scorers()
        ),
        families=groups,
        replicates=replicates_of(
            adapter, split, others, lambda other: tokenise(other, texts[:1], selecting)
        ),
        roles=known,
    )


def _families(sites: Sites, request: Request) -> tuple[Family, ...]:
    """The heads that compete for removal."""
    if request.per_kind and len(sites.kinds) == 1:
        raise HeadtoolError(
            f"`per_kind` needs several kinds of attention, and there is {sites.kinds[0]} "
            "alone; leave it out"
        )
    keep_one, per_kind = request.keep_one_per_layer, request.per_kind
    return families(sites, request.steps, keep_one=keep_one, per_kind=per_kind)


def _check_stability(halves: int, split: Split) -> None:
    """Refuse examples that are too few for halves of them."""
    count = len(split.selection)
    if halves and count < LEAST_EXAMPLES:
        raise HeadtoolError(
            f"`stability` scores heads on halves of the examples that select them, and {count} of "
            f"{split.selection_spec} do, which is below {LEAST_EXAMPLES}; give more, or leave out "
            "`stability`"
        )


def _decoding_alike(method: Method, search: Search | None, longest: int | None) -> Method:
    """Let ablation decode as the comparison does, unless it was told how."""
    if search is None or not isinstance(method, Ablation) or not method.uses_metric:
        return method
    if method.max_length is None:
        method = dataclasses.replace(method, max_length=longest)
    if (method.beam, method.length_penalty) != (None, None):
        return method
    penalty = search.length_penalty if search.beam != 1 else None
    return dataclasses.replace(method, beam=search.beam, length_penalty=penalty)
