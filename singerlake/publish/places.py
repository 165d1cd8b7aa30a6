"""Destinations that a file of projections gives a name: where they are, and how they are reached.

Secrets are never in the file: it names environment variables that hold them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from singerlake import safe_text
from singerlake.errors import UsageError
from singerlake.nearest import offer
from singerlake.storage.opening import folder, is_remote, remote_place
from singerlake.storage.options import SECRETS, StoreOptions, from_settings, setting_of

OPTIONS = tuple(one.name for one in fields(StoreOptions))
FIELDS = ("uri", *OPTIONS, "catalog")
_SECRETS = frozenset(name for name in OPTIONS if setting_of(name) in SECRETS)
_SECRET_PROPERTY = re.compile(r"secret|password|credential|token$|access-key", re.IGNORECASE)
_FLAT = re.compile(rf"destinations\.(.+?)\.({'|'.join(FIELDS)})(?:\.(.+))?")
"""How Meltano hands on a field of a destination in its settings: ``destinations.place.uri``."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def unflattened(document: Mapping[str, Any]) -> dict[str, Any]:
    """Put destinations together again that Meltano has taken apart, to one member a value."""
    whole: dict[str, Any] = {}
    for key, value in document.items():
        match = _FLAT.fullmatch(key)
        if match is None:
            whole[key] = value
            continue
        at = whole.setdefault("destinations", {}).setdefault(match[1], {})
        path = [match[2], match[3]]
        if match[2] == "catalog" and match[3]:  # whose properties have dots in their names
            name, _, env = match[3].rpartition(".")
            path = ["catalog", name, "env"] if env == "env" and name else path
        *inside, last = filter(None, path)
        for one in inside:
            at = at.setdefault(one, {})
        at[last] = value
    return whole


@dataclass(frozen=True)
class Place:
    """A destination with a name.

    Attributes:
        uri: A folder, or ``s3://bucket/prefix`` (or ``gs://``, ``az://``); what projections publish
            lies below it.
        options: How its store is reached.
        catalog: Properties of pyiceberg's catalog.
        unset: Environment variables that it names and nobody has set.
    """

    uri: str
    options: StoreOptions = field(default_factory=StoreOptions)
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    unset: tuple[str, ...] = ()

    def inside(self, path: str) -> str:
        """Give the location of a projection here.

        Raises:
            UsageError: It would be somewhere else.
        """
        parts = path.strip("/").split("/")
        if "://" in path or path.startswith(("/", "~")) or {"", ".", ".."} & {*parts}:
            raise UsageError(
                f"{path[:200]!r} is not a folder within the destination: write a relative path, "
                "for example shop/orders"
            )
        return f"{self.uri.rstrip('/')}/{'/'.join(parts)}"


def location(text: str, base: Path) -> str:
    """Give the location that somebody wrote: a folder, from where the file lies, or a bucket.

    Raises:
        UsageError: It is another URI, or not quite one.
    """
    if safe_text.redacted(text) != text:
        raise UsageError("the location holds a secret, and everyone can read it: leave it out")
    if is_remote(text):
        if not remote_place(text).strip("/"):
            raise UsageError(f"{text!r} names no bucket")
        return text.rstrip("/")
    path = folder(text, "a destination")
    if "://" not in text and not Path(text).expanduser().is_absolute():
        path = base / text
    return str(straight(path.absolute()))


def straight(path: Path) -> Path:
    """Take the ``..`` out of a path, so that a folder has one name.

    Symbolic links stay as they are written, but for one that a ``..`` leads out of: what is meant
    is the folder above that which it points to.
    """
    found = Path(path.anchor)
    for part in path.parts[1:]:
        if part != "..":
            found /= part
        else:
            found = (found.resolve() if found.is_symlink() else found).parent
    return found


def place(members: Mapping[str, Any], base: Path, environ: Mapping[str, str]) -> Place:
    """Read a destination.

    Args:
        members: What the file says of it; the names are known to be fields.
        base: Where folders begin.
        environ: The environment.

    Raises:
        UsageError: It says what cannot be said, or a secret.
    """
    uri = members.get("uri")
    if not isinstance(uri, str) or not uri:
        raise UsageError("it has no uri: write a folder, s3://bucket/prefix, gs:// or az://")
    unset: list[str] = []
    options = {
        name: _value(name, members[name], environ, unset, secret=name in _SECRETS)
        for name in OPTIONS
        if members.get(name) is not None
    }
    catalog = members.get("catalog") or {}
    if not isinstance(catalog, Mapping):
        raise UsageError("catalog must be a mapping of properties to values")
    properties = {
        str(name): _value(
            str(name), value, environ, unset, secret=bool(_SECRET_PROPERTY.search(str(name)))
        )
        for name, value in catalog.items()
    }
    reached = from_settings({setting_of(name): value for name, value in options.items()})
    return Place(location(uri, base), reached, properties, tuple(dict.fromkeys(unset)))


def _value(
    name: str, value: Any, environ: Mapping[str, str], unset: list[str], *, secret: bool
) -> str:
    """A value as it is written, or what the environment variable says that it names."""
    if isinstance(value, Mapping):
        return _of_environment(name, value, environ, unset)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{name} is neither text nor {{env: VARIABLE}}")
    text = str(value)
    if secret or safe_text.redacted(text) != text:
        raise UsageError(
            f"{name} is a secret, and everyone can read this file: write {{env: VARIABLE}}, with "
            "the name of an environment variable that holds it"
        )
    return text


def _of_environment(
    name: str, value: Mapping[Any, Any], environ: Mapping[str, str], unset: list[str]
) -> str:
    variable = value.get("env")
    if list(value) != ["env"] or not isinstance(variable, str):
        said = ", ".join(str(one)[:40] for one in value)
        raise UsageError(f"{name} has {said}: {offer(said, ['env'])} write {{env: VARIABLE}}")
    if not _VARIABLE.fullmatch(variable):
        raise UsageError(f"{name}: env must name an environment variable, of A to Z, 0 to 9 and _")
    if not environ.get(variable):
        unset.append(variable)
        return ""
    safe_text.remember_secrets([environ[variable]])
    return environ[variable]
