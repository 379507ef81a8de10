"""The models that a client may ask for by name.

A stock client sends a stock name; the operator's table says that it is meant for us. A name that
neither the table nor the engine knows is refused with the ones that would do, because a client that
asked for something else would otherwise never learn that it did not get it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.errors import bad_request
from server.settings import local_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.contract import EngineInfo
    from server.settings import Names


def default_model(names: Names) -> str:
    """The first name that the operator gave, empty where there is none: either is the default."""
    return next(iter(_named(names)), "")


def _named(names: Names) -> list[str]:
    """Names in the operator's table; patterns have no name of their own."""
    return [name for name in names.models if "*" not in name]


def known_models(names: Names, info: EngineInfo) -> list[str]:
    """Names that can be asked for, the default first."""
    return list(dict.fromkeys([*_named(names), info.name, *info.models]))


def asked_model(name: str, names: Names, info: EngineInfo, param: str = "model") -> str:
    """The model a client means by ``name``, in its own spelling; empty means the default.

    ``param`` is where it was asked for.

    Raises:
        ServiceError: nobody here goes by that name.
    """
    known = known_models(names, info)
    if not name:
        return known[0]
    if name not in known and local_name(names.models, name) is None:
        raise bad_request(
            "model_not_found",
            f"{param}: expected one of {', '.join(known)}; got another",
            param,
            404,
        )
    return name


def model_of(session: Mapping[str, Any]) -> str:
    """The model that a client's session object names; empty where it names none.

    Raises:
        ServiceError: what it names is no name.
    """
    model = session.get("model", "")
    if not isinstance(model, str):
        message = "session.model: expected the name of a model"
        raise bad_request("invalid_value", message, "session.model")
    return model


def model_objects(names: Names, info: EngineInfo) -> list[dict[str, str | int]]:
    """The models as ``/v1/models`` lists them."""
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "parley"}
        for name in known_models(names, info)
    ]
