"""Charts and other archives in OCI registries, by the distribution protocol (opencontainers/distribution-spec 1.1).

A chart is a manifest with one layer of the type that Helm gives it; any other artifact with one gzipped tar is taken as a
directory of files. Everything fetched is checked against its digest.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode, urljoin

import msgspec

from delegate.engine.sources.charts.answers import error_of
from delegate.engine.sources.charts.indexes import ChartVersion, check_digest, choose_version
from delegate.engine.sources.errors import ChartNotFoundError, FetchUrlError, UnexpectedAnswerError
from delegate.engine.sources.fetching import Fetched, WebAccess, fetch
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.versions import is_range, read_version
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.settings.urls import is_loopback

CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_ARCHIVES = (CHART_LAYER, "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip")
_MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
_MANIFEST_BYTES = 4 * 1024 * 1024
_TAGS_BYTES = 4 * 1024 * 1024
_MOST_PAGES = 100
_PAGE = 1000
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REPOSITORY = re.compile(r"(?P<host>[A-Za-z0-9.-]+(?::\d+)?|\[[0-9A-Fa-f:]+\](?::\d+)?)/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)")
_PARAMETER = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NEXT = re.compile(r"<([^>]*)>\s*;\s*rel=\"?next\"?")


T = TypeVar("T")


class _Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str
    digest: str
    size: int = 0


class _Manifest(msgspec.Struct, frozen=True, rename="camel"):
    layers: tuple[_Descriptor, ...] = ()


class _Tags(msgspec.Struct, frozen=True):
    tags: tuple[str, ...] | None = None


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""


class Registry:
    """One repository of a registry. Tokens that it hands out are kept while this object lives."""

    def __init__(self, address: str, limits: SourceLimits) -> None:
        """`address` is `host[:port]/name`, with `oci://` or without. Raises FetchUrlError."""
        match = _REPOSITORY.fullmatch(address.removeprefix("oci://").rstrip("/"))
        if match is None:
            raise FetchUrlError(f"{address!r} is no repository of a registry", hint="write oci://host/path, in lower case")
        self._host, self._name = match["host"], match["name"]
        self._shown = f"oci://{self._host}/{self._name}"
        self._limits = limits
        self._token = ""

    async def resolve(self, version: str, access: WebAccess) -> ChartVersion:
        """The digest that a tag, a version or a range of them leads to; `url` is the tag. A digest is itself.

        Raises ChartNotFoundError and the faults of fetching.
        """
        if _DIGEST.fullmatch(version):
            return ChartVersion(version, version, version.removeprefix("sha256:"))
        wanted = "*" if version in ("", "HEAD") else version
        tag = wanted.replace("+", "_")
        if is_range(wanted):
            tags = await self._list_tags(access)
            listed = tuple(ChartVersion(each.replace("_", "+"), each) for each in tags if read_version(each.replace("_", "+")))
            tag = choose_version(self._shown, listed, wanted).url
        answer = await self._ask(f"manifests/{tag}", access, accept=_MANIFESTS, limit=_MANIFEST_BYTES)
        if answer.status == 404:
            raise ChartNotFoundError(f"{self._shown} has no tag {tag!r}", hint="check the version and the name of the repository")
        _success(answer, access)
        digest = answer.headers.get("docker-content-digest", "")
        check_digest(answer.body, digest.removeprefix("sha256:"), f"{self._shown}:{tag}")
        return ChartVersion(tag.replace("_", "+"), tag, hashlib.sha256(answer.body).hexdigest())

    async def fetch(self, chosen: ChartVersion, access: WebAccess) -> tuple[bytes, bool]:
        """The archive of a version, and whether it is a chart. Raises ChartDigestError, UnexpectedAnswerError, faults of fetching."""
        where = f"{self._shown}@sha256:{chosen.digest[:12]}"
        answer = _success(await self._ask(f"manifests/sha256:{chosen.digest}", access, accept=_MANIFESTS, limit=_MANIFEST_BYTES), access)
        check_digest(answer.body, chosen.digest, where)
        layers = _decode(answer, _Manifest, "manifest").layers
        charts = [layer for layer in layers if layer.media_type == CHART_LAYER]
        archives = charts or [layer for layer in layers if layer.media_type in _ARCHIVES]
        if len(archives) != 1:
            types = ", ".join(sorted({layer.media_type for layer in layers})) or "nothing"
            raise UnexpectedAnswerError(f"{where} is neither a chart nor an artifact with one archive: it holds {types}")
        layer = archives[0]
        if layer.size > self._limits.file_bytes or not _DIGEST.fullmatch(layer.digest):
            raise UnexpectedAnswerError(f"{where}: a layer of {layer.size} bytes; the limit is {self._limits.file_bytes}")
        blob = _success(await self._ask(f"blobs/{layer.digest}", access, accept="*/*", limit=self._limits.file_bytes), access)
        check_digest(blob.body, layer.digest.removeprefix("sha256:"), where)
        return blob.body, bool(charts)

    async def _list_tags(self, access: WebAccess) -> list[str]:
        path, found = f"tags/list?{urlencode({'n': _PAGE})}", list[str]()
        for _ in range(_MOST_PAGES):
            answer = await self._ask(path, access, accept="application/json", limit=_TAGS_BYTES)
            if answer.status == 404:
                raise ChartNotFoundError(f"{self._shown}: there is no such repository", hint="check the address and the chart's name")
            found += _decode(_success(answer, access), _Tags, "list of tags").tags or ()
            following = _NEXT.search(answer.headers.get("link", ""))
            if following is None:
                return found
            path = urljoin(f"/v2/{self._name}/", following[1])
        return found

    async def _ask(self, path: str, access: WebAccess, *, accept: str, limit: int) -> Fetched:
        """Asks; where a token is wanted, gets one and asks again."""
        near = is_loopback(self._host.rpartition(":")[0] or self._host) and not access.authority
        scheme = "http" if access.plain_http or near else "https"
        url = urljoin(f"{scheme}://{self._host}/v2/{self._name}/", path)
        answer = await fetch(url, access, limit=limit, headers={"Accept": accept}, authorization=self._token or None)
        if answer.status != 401:
            return answer
        challenge = answer.headers.get("www-authenticate", "")
        if not challenge.lower().startswith("bearer "):
            return answer
        self._token = f"Bearer {await self._get_token(dict(_PARAMETER.findall(challenge)), access)}"
        return await fetch(url, access, limit=limit, headers={"Accept": accept}, authorization=self._token)

    async def _get_token(self, parameters: Mapping[str, str], access: WebAccess) -> str:
        realm = parameters.get("realm", "")
        question = {name: parameters[name] for name in ("service", "scope") if parameters.get(name)}
        question.setdefault("scope", f"repository:{self._name}:pull")
        answer = await fetch(f"{realm}{'&' if '?' in realm else '?'}{urlencode(question)}", access, limit=_MANIFEST_BYTES)
        token = _decode(_success(answer, access), _Token, "token")
        if not (token.token or token.access_token):
            raise UnexpectedAnswerError(f"{self._shown}: {realm} gives no token")
        KNOWN_SECRETS.add(token.token or token.access_token)
        return token.token or token.access_token


def _success(answer: Fetched, access: WebAccess) -> Fetched:
    if answer.status != 200:
        raise error_of(answer, anonymous=not access.authorization)
    return answer


def _decode(answer: Fetched, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UnexpectedAnswerError(f"{answer.url} gives no {what}: {error}", hint="check the address") from error
