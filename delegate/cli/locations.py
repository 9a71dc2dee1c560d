"""What a person means by PATH-OR-URL: a repository over the network, one on this machine, a directory, a file."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import SecretUrl, hide_credentials
from delegate.model.sources import Source

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCP = re.compile(r"(?:[^/@:\s]+@)?[^/:@\s]{2,}:(?!//)\S+")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")
_LONGEST_NAME = 53


class LocationError(DelegateError):
    """A PATH-OR-URL that leads nowhere, or options that don't fit it."""

    default_code = "input.location"
    category = Category.INPUT


def is_url(text: str) -> bool:
    """Whether a repository over the network (or by `file://`) is meant. A path that exists is a path, whatever it looks like."""
    return bool(_URL.match(text)) or bool(_SCP.fullmatch(text) and not Path(text).exists())


def source_of(location: str, *, revision: str, path: str) -> Source:
    """The source that a location means. Raises LocationError.

    A directory is taken as it stands, also inside a work tree; with a revision, its repository at that revision is meant. A
    bare repository is one at its HEAD. `path` is relative to the location.
    """
    if is_url(location):
        password = SecretUrl(location).password
        if password is not None:
            KNOWN_SECRETS.add(password)
        return Source(repo_url=location, target_revision=revision or "HEAD", path=path or ".")
    place = Path(location).expanduser()
    if not place.exists():
        raise LocationError(
            f"{location} is neither an existing path nor a URL", hint="check the path; a URL looks like https://host/repository"
        )
    place = place.resolve()
    if is_bare_repository(place):
        return Source(repo_url=str(place), target_revision=revision or "HEAD", path=path or ".")
    if revision:
        top = work_tree_of(place)
        if top is None:
            raise LocationError(f"{location} is in no Git work tree, so it has no revision {revision!r}", hint="leave --revision out")
        return Source(repo_url=str(top), target_revision=revision, path=_inside(location, top, place, path))
    if not path:
        return Source(path=str(place))
    if not place.is_dir():
        raise LocationError(f"{location} is a file, and --path is relative to a directory", hint="leave --path out")
    inside = place / _inside(location, place, place, path)
    if not inside.exists():
        raise LocationError(f"there is no {path} in {location}", hint="check --path")
    return Source(path=str(inside))


def is_bare_repository(place: Path) -> bool:
    return (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir()


def work_tree_of(place: Path) -> Path | None:
    """The root of the work tree that a path is in; None outside of any."""
    for directory in (place, *place.parents):
        if (directory / ".git").exists():
            return directory
    return None


def _inside(location: str, top: Path, place: Path, path: str) -> str:
    """`path` below `place`, relative to `top`; by its words alone, for a revision may hold what the disk doesn't."""
    relative = os.path.relpath(os.path.normpath(place / path), top)
    if Path(path).is_absolute() or relative.split(os.sep)[0] == "..":
        raise LocationError(f"--path {path} leads out of {location}", hint="give the directory itself")
    return relative


def application_name(location: str, path: str) -> str:
    """The name that an application gets where none is given: the last element of its place, made a valid one.

    Raises LocationError where nothing is left of it.
    """
    last = _last_element(path) or _last_element(urlsplit(location).path if _URL.match(location) else location.rpartition(":")[2])
    if not last and not is_url(location):
        last = Path(location).expanduser().resolve().name
    name = _NOT_IN_NAMES.sub("-", last.lower()).strip("-.")[:_LONGEST_NAME].strip("-.")
    if not name:
        raise LocationError(f"{hide_credentials(location)} gives no name for the application", hint="say --app NAME")
    return name


def _last_element(path: str) -> str:
    elements = [element for element in path.split("/") if element not in ("", ".", "..")]
    last = elements[-1] if elements else ""
    for suffix in (".git", ".yaml", ".yml", ".json"):
        last = last.removesuffix(suffix)
    return last
