"""Upload the folder of a pruned model to the Hugging Face hub."""

from __future__ import annotations

import os
from pathlib import Path

from headtool.errors import HeadtoolError
from headtool.quiet import no_bars

__all__ = ["check_repository", "push_folder"]

_REMEDIES = {
    401: "log in with 'hf auth login', or set HF_TOKEN to a token that may write",
    403: "use a token that may write there, or another name",
    404: "check the name, and that the token may write there",
}


def check_repository(name: str) -> None:
    """Refuse, before any work is done, what is no name of a repository.

    Parameters
    ----------
    name
        Such as ``org/name``.

    Raises
    ------
    HeadtoolError
        Naming it.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        name_is_valid = False
    else:
        name_is_valid = "/" in name
    if not name_is_valid:
        raise HeadtoolError(f"`push` takes a repository such as org/name, got {name!r}")


def push_folder(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload a folder; the repository is made where there is none.

    Parameters
    ----------
    folder
        The folder, which stays as it is.
    repository
        Name on the hub.
    private
        Whether a new repository is private.

    Returns
    -------
    str
        Where it can be seen.

    Raises
    ------
    HeadtoolError
        If the hub cannot be reached or refuses; the folder stays.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    # httpx's or requests' own error, whichever the library uses.
    network = (
        base
        for base in HfHubHTTPError.__mro__
        if issubclass(base, Exception)
        and base.__module__.partition(".")[0] not in ("huggingface_hub", "builtins")
    )
    failures: tuple[type[Exception], ...] = (OSError, ValueError, *network)
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        with no_bars():
            if api.token is None and _token() is None:
                raise _not_pushed(folder, repository, "there is no token", _REMEDIES[401])
            api.create_repo(repository, private=private or None, exist_ok=True)
            made = api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                commit_message="Add a model pruned by headtool",
            )
    except OfflineModeIsEnabled as error:
        remedy = "unset HF_HUB_OFFLINE"
        raise _not_pushed(folder, repository, "offline mode is on", remedy) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        remedy = _REMEDIES.get(status, "try again later")
        raise _not_pushed(folder, repository, f"the hub answers {status}", remedy) from error
    except failures as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise _not_pushed(folder, repository, reason, "check the network") from error
    return str(getattr(made, "repo_url", "") or f"{api.endpoint}/{repository}")


def _token() -> str | None:
    from huggingface_hub import get_token

    return get_token()


def _not_pushed(folder: Path, repository: str, reason: str, remedy: str) -> HeadtoolError:
    return HeadtoolError(
        f"the model is in {folder}, but not on the hub: {reason}; {remedy}, then give "
        f"'hf upload {repository} {folder}'"
    )
