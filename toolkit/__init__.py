"""headtool: compare ways of scoring and pruning attention heads.

The public names below are imported when they are first used, so that ``import headtool`` is cheap.

Examples
--------
>>> import headtool
>>> model = headtool.load_model("builtin:nli")
>>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
>>> scores = headtool.get_method("gradient")(granularity="example").score(model, examples)
>>> scores.frame[["kind", "layer", "head", "score"]].shape
(32, 4)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headtool.data import TextData, load_data
    from headtool.engine.differentiation import differentiate
    from headtool.engine.evaluation import evaluate
    from headtool.engine.observation import observe
    from headtool.errors import HeadtoolError
    from headtool.experiments.ablation import Ablation, ablate
    from headtool.experiments.callback import Callback
    from headtool.experiments.compare import compare, curve
    from headtool.experiments.correlation import Correlation, correlate, correlate_runs
    from headtool.experiments.dry_run import plan
    from headtool.experiments.dynamics import Dynamics, dynamics
    from headtool.experiments.environment import Environment, env
    from headtool.experiments.exchange import (
        Imported,
        export_scores,
        import_scores,
        method_of_run,
    )
    from headtool.experiments.inputs import DataSource
    from headtool.experiments.listing import HeadList, MethodList, list_heads, list_methods
    from headtool.experiments.planning import Plan
    from headtool.experiments.pruning import Pruning, prune
    from headtool.experiments.request import Request
    from headtool.experiments.roles import Roles, roles, roles_of_run
    from headtool.experiments.score import Scoring, score
    from headtool.experiments.sequential import SequentialAblation, ablate_sequentially
    from headtool.experiments.setup import Setup, set_up
    from headtool.experiments.showing import Shown, show
    from headtool.experiments.significance import CompatVerdicts, Verdicts, test, test_as
    from headtool.experiments.speed import Speed, speed
    from headtool.experiments.validation import Validation, validate
    from headtool.heads import AttentionSite, Head, HeadMask
    from headtool.methods import get_method, method_names
    from headtool.metrics import get_metric
    from headtool.models import load_model
    from headtool.models.huggingface.wrapping import wrap
    from headtool.models.source import ModelSource
    from headtool.pruning.loading import load_pruned
    from headtool.reports.results import Comparison, HeadScores
    from headtool.reports.writing import write_report, write_study_report
    from headtool.results.outcomes import Outcomes
    from headtool.results.progress_bar import ProgressBar
    from headtool.results.runs import Run, read_run
    from headtool.results.studies import Study
    from headtool.searching import Search
    from headtool.studies.dry_run import StudyCost, plan_study
    from headtool.studies.running import study
    from headtool.studies.status import StudyStatus, study_status
    from headtool.workers.pool import Workers

__all__ = [
    "Ablation",
    "AttentionSite",
    "Callback",
    "Comparison",
    "CompatVerdicts",
    "Correlation",
    "DataSource",
    "Dynamics",
    "Environment",
    "Head",
    "HeadList",
    "HeadMask",
    "HeadScores",
    "HeadtoolError",
    "Imported",
    "MethodList",
    "ModelSource",
    "Outcomes",
    "Plan",
    "ProgressBar",
    "Pruning",
    "Request",
    "Roles",
    "Run",
    "Scoring",
    "Search",
    "SequentialAblation",
    "Setup",
    "Shown",
    "Speed",
    "Study",
    "StudyCost",
    "StudyStatus",
    "TextData",
    "Validation",
    "Verdicts",
    "Workers",
    "ablate",
    "ablate_sequentially",
    "compare",
    "correlate",
    "correlate_runs",
    "curve",
    "differentiate",
    "dynamics",
    "env",
    "evaluate",
    "export_scores",
    "get_method",
    "get_metric",
    "import_scores",
    "list_heads",
    "list_methods",
    "load_data",
    "load_model",
    "load_pruned",
    "method_names",
    "method_of_run",
    "observe",
    "plan",
    "plan_study",
    "prune",
    "read_run",
    "roles",
    "roles_of_run",
    "score",
    "set_up",
    "show",
    "speed",
    "study",
    "study_status",
    "test",
    "test_as",
    "validate",
    "wrap",
    "write_report",
    "write_study_report",
]

_HOMES = {
    "Ablation": "headtool.experiments.ablation",
    "AttentionSite": "headtool.heads",
    "Callback": "headtool.experiments.callback",
    "Comparison": "headtool.reports.results",
    "CompatVerdicts": "headtool.experiments.significance",
    "Correlation": "headtool.experiments.correlation",
    "DataSource": "headtool.experiments.inputs",
    "Dynamics": "headtool.experiments.dynamics",
    "Environment": "headtool.experiments.environment",
    "Head": "headtool.heads",
    "HeadList": "headtool.experiments.listing",
    "HeadMask": "headtool.heads",
    "HeadScores": "headtool.reports.results",
    "HeadtoolError": "headtool.errors",
    "MethodList": "headtool.experiments.listing",
    "ModelSource": "headtool.models.source",
    "Outcomes": "headtool.results.outcomes",
    "Plan": "headtool.experiments.planning",
    "ProgressBar": "headtool.results.progress_bar",
    "Request": "headtool.experiments.request",
    "Pruning": "headtool.experiments.pruning",
    "Roles": "headtool.experiments.roles",
    "Run": "headtool.results.runs",
    "Scoring": "headtool.experiments.score",
    "Search": "headtool.searching",
    "Setup": "headtool.experiments.setup",
    "Shown": "headtool.experiments.showing",
    "SequentialAblation": "headtool.experiments.sequential",
    "Speed": "headtool.experiments.speed",
    "Study": "headtool.results.studies",
    "StudyCost": "headtool.studies.dry_run",
    "StudyStatus": "headtool.studies.status",
    "TextData": "headtool.data",
    "Validation": "headtool.experiments.validation",
    "Verdicts": "headtool.experiments.significance",
    "Workers": "headtool.workers.pool",
    "ablate": "headtool.experiments.ablation",
    "ablate_sequentially": "headtool.experiments.sequential",
    "compare": "headtool.experiments.compare",
    "curve": "headtool.experiments.compare",
    "correlate": "headtool.experiments.correlation",
    "correlate_runs": "headtool.experiments.correlation",
    "differentiate": "headtool.engine.differentiation",
    "dynamics": "headtool.experiments.dynamics",
    "env": "headtool.experiments.environment",
    "evaluate": "headtool.engine.evaluation",
    "export_scores": "headtool.experiments.exchange",
    "import_scores": "headtool.experiments.exchange",
    "method_of_run": "headtool.experiments.exchange",
    "Imported": "headtool.experiments.exchange",
    "get_method": "headtool.methods",
    "get_metric": "headtool.metrics",
    "list_heads": "headtool.experiments.listing",
    "list_methods": "headtool.experiments.listing",
    "load_data": "headtool.data",
    "load_model": "headtool.models",
    "load_pruned": "headtool.pruning.loading",
    "method_names": "headtool.methods",
    "observe": "headtool.engine.observation",
    "plan": "headtool.experiments.dry_run",
    "plan_study": "headtool.studies.dry_run",
    "prune": "headtool.experiments.pruning",
    "read_run": "headtool.results.runs",
    "roles": "headtool.experiments.roles",
    "roles_of_run": "headtool.experiments.roles",
    "score": "headtool.experiments.score",
    "set_up": "headtool.experiments.setup",
    "show": "headtool.experiments.showing",
    "speed": "headtool.experiments.speed",
    "study": "headtool.studies.running",
    "study_status": "headtool.studies.status",
    "test": "headtool.experiments.significance",
    "test_as": "headtool.experiments.significance",
    "validate": "headtool.experiments.validation",
    "wrap": "headtool.models.huggingface.wrapping",
    "write_report": "headtool.reports.writing",
    "write_study_report": "headtool.reports.writing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headtool' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
