"""Saved roles, and joining them with the heads that a comparison keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SavedRoles", "check_model", "check_roles", "join_roles", "read_roles"]

_PLACE = ["kind", "layer", "head"]


@dataclass(frozen=True, eq=False)
class SavedRoles:
    """Roles of a model's heads, as ``headtool roles --out`` wrote them.

    Attributes
    ----------
    folder
        The run directory.
    frame
        What `headtool.analysis.roles.role_table` returned.
    source
        Provenance.
    command
        The command that makes the run again.
    """

    folder: Path
    frame: pd.DataFrame
    source: Mapping[str, Any]
    command: str = ""

    @property
    def described(self) -> dict[str, Any]:
        """What the settings of a comparison say of its roles; as JSON."""
        return {**self.source, "command": self.command}


def read_roles(folder: Path) -> SavedRoles:
    """Read the roles of a run.

    Raises
    ------
    HeadtoolError
        If there is no run, it is damaged or of another version, or it is not one of roles.
    """
    from headtool.results.runs import read_run

    run = read_run(folder)
    provenance = run.manifest["provenance"]
    source = provenance.get("roles")
    if source is None or "roles" not in run.manifest["tables"]:
        other = next(iter(provenance), "")
        what = f"is a run of {other} and holds no roles" if other else "holds no roles"
        raise HeadtoolError(f"{folder} {what}; make some with headtool roles --out DIR")
    return SavedRoles(folder, run.table("roles"), source, str(run.manifest.get("command", "")))


def join_roles(
    roles: SavedRoles, model: Mapping[str, Any], kept: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """Join roles with the heads that methods keep.

    Parameters
    ----------
    roles
        Saved roles.
    model
        What the provenance of the comparison says of its model.
    kept
        Which heads methods keep: ``kept``.

    Returns
    -------
    dict
        The tables ``roles`` and ``role_survival``
        (`headtool.analysis.roles.surviving_roles`) by name.

    Raises
    ------
    HeadtoolError
        As `check_roles`.
    """
    from headtool.analysis.roles import surviving_roles

    check_roles(roles, model, kept)
    return {"roles": roles.frame, "role_survival": surviving_roles(roles.frame, kept)}


def check_roles(roles: SavedRoles, model: Mapping[str, Any], heads: pd.DataFrame) -> None:
    """Refuse, before anything is computed, roles that cannot be joined with a comparison.

    Parameters
    ----------
    roles
        Saved roles.
    model
        What the provenance of the comparison says of its model.
    heads
        The heads that are up for removal: ``kind layer head``.

    Raises
    ------
    HeadtoolError
        If the model is another one, or none of the heads was looked at.
    """
    check_model(roles.source["model"], model, given=roles.folder)
    if roles.frame[_PLACE].merge(heads[_PLACE], on=_PLACE).empty:
        looked, compared = (", ".join(part["kind"].unique()) for part in (roles.frame, heads))
        raise HeadtoolError(
            f"{roles.folder} has roles of {looked or 'no'} heads, and those of {compared} are up "
            "for removal; give roles of the same kinds"
        )


def check_model(
    roles: Mapping[str, Any], compared: Mapping[str, Any], *, given: Path | str
) -> None:
    """Refuse to join the roles of one model with the heads that methods keep in another.

    Parameters
    ----------
    roles, compared
        What the provenances of both say of the model.
    given
        The run that was given to be joined.

    Raises
    ------
    HeadtoolError
        If the weights differ.
    """
    if not roles.get("sha256") or roles["sha256"] != compared.get("sha256"):
        raise HeadtoolError(
            f"{given} is about another model: the roles are those of {roles.get('spec')}, methods "
            f"were compared on {compared.get('spec')}, and the weights differ; give a run of the "
            "same weights"
        )
