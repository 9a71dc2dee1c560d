"""What a delegate lets a manager have done: a local policy that no manager can widen. Pure.

    keys:                                     # who may vouch for tasks
      release-team: ed25519:...
    signatures:                               # tasks that need a signature; every list that is given must fit
      - {kinds: [sync, rollback], clusters: ["prod-*"]}
    allow:                                    # what may be done at all; a list that is absent allows everything
      kinds: [sync, diff]
      clusters: [in-cluster, "prod-*"]
      namespaces: [shop, "team-*"]            # then nothing outside of namespaces either, unless clusterScoped is true
      clusterScoped: false
      repositories: ["https://git.example/team/*"]

Patterns know `*` and `?`. A cluster is meant by the name, or the address, that the task's destination names: an empty one is in-cluster.
"""

import fnmatch
import posixpath
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

import msgspec

from delegate.foundation.errors import Category, DelegateError
from delegate.model.tasks import Task

_IN_CLUSTER = "in-cluster"


class NotAllowedError(DelegateError):
    """Something that this delegate's own policy doesn't allow, whoever wants it. Nothing was done."""

    default_code = "policy.not_allowed"
    category = Category.POLICY


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class SignatureRule(_Strict, frozen=True):
    """Which tasks need a signature; an empty list fits all."""

    kinds: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()

    def fits(self, task: Task) -> bool:
        return all(
            not patterns or fits_any(patterns, value)
            for patterns, value in (
                (self.kinds, task.kind.value),
                (self.clusters, cluster_of(task)),
                (self.environments, task.environment),
            )
        )


class Allowed(_Strict, frozen=True):
    """None allows everything."""

    kinds: tuple[str, ...] | None = None
    clusters: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    cluster_scoped: bool = False
    repositories: tuple[str, ...] | None = None


class TrustPolicy(_Strict, frozen=True):
    keys: dict[str, str] = {}
    signatures: tuple[SignatureRule, ...] = ()
    allow: Allowed = Allowed()

    def wants_signature(self, task: Task) -> bool:
        return any(rule.fits(task) for rule in self.signatures)

    def check_document(self, task: Task) -> None:
        """All that can be said before anything is fetched. Raises NotAllowedError."""
        allow = self.allow
        for what, patterns, value in (
            ("tasks of kind", allow.kinds, task.kind.value),
            ("tasks for cluster", allow.clusters, cluster_of(task)),
        ):
            if patterns is not None and not fits_any(patterns, value):
                raise _not_allowed(f"{what} {value}", patterns)
        if task.destination.namespace:
            self.check_namespace(task.destination.namespace, "the destination")
        for url in repositories_of(task):
            if allow.repositories is not None and not _fits_repository(allow.repositories, url):
                raise _not_allowed(f"the repository {shown_url(url)}", allow.repositories)

    def check_namespace(self, namespace: str, what: str) -> None:
        """For one object; without a namespace it belongs to the cluster as a whole. Raises NotAllowedError."""
        patterns = self.allow.namespaces
        if patterns is None:
            return
        if not namespace:
            if not self.allow.cluster_scoped:
                raise _not_allowed(f"{what}, which is in no namespace,", patterns)
        elif not fits_any(patterns, namespace):
            raise _not_allowed(f"{what} in namespace {namespace}", patterns)


def _not_allowed(what: str, patterns: Iterable[str]) -> NotAllowedError:
    return NotAllowedError(
        f"this delegate's own policy does not allow {what} (allowed: {', '.join(patterns) or 'nothing'})",
        hint="change the file that DELEGATE_TRUST_POLICY names, on the delegate's machine, if that is meant",
    )


def fits_any(patterns: Iterable[str], value: str) -> bool:
    return any(fnmatch.fnmatchcase(value, _escape(pattern)) for pattern in patterns)


def _escape(pattern: str) -> str:
    return pattern.replace("[", "[[]")


def cluster_of(task: Task) -> str:
    return task.destination.name or task.destination.server or _IN_CLUSTER


def repositories_of(task: Task) -> Iterator[str]:
    """Every repository that the document names, wherever it stands."""
    yield from _repositories(task.spec)


def _repositories(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name.lower() in ("repourl", "repository", "repositoryurl") and isinstance(each, str) and each:
                yield each
            else:
                yield from _repositories(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _repositories(each)


def _fits_repository(patterns: Iterable[str], url: str) -> bool:
    """Compared without credentials, with the host in lower case; a path that climbs fits nothing."""
    plain = shown_url(url)
    path = unquote(unquote(urlsplit(plain).path if "://" in plain else plain))
    if "\\" in path or any(part in (".", "..") for part in path.split("/")) or posixpath.normpath(path.lstrip("/")) == "..":
        return False
    return fits_any(patterns, plain) or fits_any(patterns, plain.removesuffix(".git"))


def shown_url(url: str) -> str:
    """A repository's URL without credentials, query and fragment."""
    if "://" not in url:
        user, at, rest = url.partition("@")
        return rest if at and ":" in rest and "/" not in user else url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme.lower()}://{host}{parts.path}"
