"""What Git LFS keeps beside a repository: files of which a commit holds a pointer alone.

Speaks the batch API with basic transfers itself, so that no program, filter or configuration of git-lfs takes part. Sources:
git-lfs/docs, spec.md (pointers), api/server-discovery.md, api/batch.md, api/basic-transfers.md.
"""

import asyncio
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from delegate.engine.sources.errors import (
    FetchAuthenticationError,
    FetchTransferError,
    LargeFileError,
    LocalSourceError,
    RepositoryUrlError,
    SourceTooLargeError,
)
from delegate.engine.sources.fetching import Fetched, WebAccess, fetch
from delegate.engine.sources.git.locks import MirrorLock
from delegate.engine.sources.git.submodules import related_to
from delegate.engine.sources.git.urls import RepositoryUrl, Transport
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.loader.syntax import is_lfs_pointer
from delegate.engine.sources.stores import DigestStore
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import Secret, hide_credentials
from delegate.foundation.settings.urls import is_loopback

SETTINGS = ".lfsconfig"
_MEDIA_TYPE = "application/vnd.git-lfs+json"
_POINTER = re.compile(rb"version [^\n]+\noid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n?")
_LONGEST_POINTER = 1024
_ANSWER_BYTES = 4 * 1024 * 1024
_MOST_OF_A_BATCH = 100
_AT_ONCE = 4
_REFUSED, _NOT_NOW = (401, 403), (408, 429, 500, 502, 503, 504)

Answer = TypeVar("Answer", bound=msgspec.Struct)


class Pointer(NamedTuple):
    """The SHA-256 of a file, and its bytes. `path` is where the pointer stands."""

    digest: str
    size: int
    path: str


class Host(Protocol):
    """Whom a repository's files are asked of, and as whom."""

    async def access(self, url: RepositoryUrl, *, rejected: bool) -> WebAccess:
        """How to present ourselves there. `rejected`: it refused the last login."""
        ...

    async def stranger(self, url: str) -> WebAccess:
        """The way to a host that gets no credentials of ours."""
        ...

    async def authenticate(self) -> bytes:
        """What `git-lfs-authenticate` says at a repository's host, over SSH."""
        ...


class _Endpoint(NamedTuple):
    """Where batches are asked for. `headers` are of SSH's giving; `address` is whose login it is, None with those."""

    url: str
    headers: Mapping[str, str]
    address: RepositoryUrl | None


class _Action(msgspec.Struct, frozen=True):
    href: str
    header: dict[str, str] | None = None


class _Problem(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Object(msgspec.Struct, frozen=True):
    oid: str
    actions: dict[str, _Action] | None = None
    error: _Problem | None = None


class _Batch(msgspec.Struct, frozen=True):
    objects: list[_Object]
    transfer: str | None = None


class LargeFiles:
    """The files of one repository. `store` keeps what was fetched, and `lock` lets one task fetch what many want."""

    def __init__(self, url: RepositoryUrl, host: Host, *, store: DigestStore, lock: MirrorLock, limits: SourceLimits) -> None:
        self._url = url
        self._host = host
        self._store = store
        self._lock = lock
        self._limits = limits

    async def fill(self, files: Sequence[SourceFile], settings: Mapping[str, str]) -> list[SourceFile]:
        """The files, with their contents in the place of pointers. `settings` are those of the repository's `.lfsconfig`.

        Raises SourceTooLargeError, LargeFileError, and the faults of fetching.
        """
        pointers = list(self._pointers(files))
        contents = await self._kept(pointers)
        if len(contents) < len({each.digest for each in pointers}):
            async with self._lock.held():
                contents |= await self._kept([each for each in pointers if each.digest not in contents])
                contents |= await self._fetch([each for each in pointers if each.digest not in contents], settings)
        digests = {each.path: each.digest for each in pointers}
        return [SourceFile(file.path, contents[digests[file.path]]) if file.path in digests else file for file in files]

    def _pointers(self, files: Sequence[SourceFile]) -> Iterator[Pointer]:
        total = 0
        for file in files:
            if not is_lfs_pointer(file.data):
                continue
            found = _POINTER.fullmatch(file.data) if len(file.data) <= _LONGEST_POINTER else None
            if found is None:
                raise LargeFileError("this LFS pointer can't be read", hint="`git lfs fsck --pointers` says more", file=file.path)
            pointer = Pointer(found[1].decode(), int(found[2]), file.path)
            total += pointer.size
            if pointer.size > self._limits.file_bytes or total > self._limits.total_bytes:
                bounds = f"{self._limits.file_bytes} of one file, {self._limits.total_bytes} of all"
                words = f"{pointer.size} bytes in Git LFS; the limit is {bounds}"
                raise SourceTooLargeError(words, hint="leave it out, or choose a deeper path", file=file.path)
            yield pointer

    async def _kept(self, pointers: Sequence[Pointer]) -> dict[str, bytes]:
        found = [(each.digest, await self._store.get(each.digest)) for each in pointers]
        return {digest: data for digest, data in found if data is not None}

    async def _fetch(self, pointers: Sequence[Pointer], settings: Mapping[str, str]) -> dict[str, bytes]:
        wanted = list({each.digest: each for each in pointers}.values())
        if not wanted:
            return {}
        endpoint = await self._endpoint(settings)
        contents: dict[str, bytes] = {}
        turns = asyncio.Semaphore(_AT_ONCE)
        for start in range(0, len(wanted), _MOST_OF_A_BATCH):
            part = wanted[start : start + _MOST_OF_A_BATCH]
            actions, access = await self._ask(endpoint, part)
            downloads = [asyncio.ensure_future(self._download(each, actions[each.digest], endpoint, access, turns)) for each in part]
            try:
                contents |= dict(zip((each.digest for each in part), await asyncio.gather(*downloads), strict=True))
            finally:
                for download in downloads:
                    download.cancel()
                await asyncio.gather(*downloads, return_exceptions=True)
        return contents

    async def _endpoint(self, settings: Mapping[str, str]) -> _Endpoint:
        """As git-lfs finds it: by the repository's `.lfsconfig`, by its address, by asking its host over SSH."""
        configured = settings.get("lfs.url") or settings.get("remote.origin.lfsurl")
        if configured:
            try:
                address = related_to(self._url, configured)
            except (RepositoryUrlError, LocalSourceError) as error:
                raise LargeFileError(f"{self._url.shown}: Git LFS is not asked there: {error.message}", file=SETTINGS) from error
            if address.transport not in (Transport.HTTPS, Transport.HTTP):
                raise LargeFileError(f"{self._url.shown}: Git LFS is reached by https", hint="correct lfs.url", file=SETTINGS)
            return _Endpoint(address.address.rstrip("/"), {}, address)
        if self._url.transport is Transport.SSH:
            answer = _decode(await self._host.authenticate(), _Action, self._url.shown)
            headers = answer.header or {}
            for value in headers.values():
                KNOWN_SECRETS.add(Secret(value.rpartition(" ")[2]))
            return _Endpoint(answer.href.rstrip("/"), headers, None)
        if self._url.transport is Transport.FILE:
            raise LargeFileError(f"{self._url.shown} is on this machine, and has no Git LFS", hint="`git lfs pull` it into a work tree")
        trimmed = self._url.address.rstrip("/")
        return _Endpoint(f"{trimmed if trimmed.endswith('.git') else trimmed + '.git'}/info/lfs", {}, self._url)

    async def _ask(self, endpoint: _Endpoint, part: Sequence[Pointer]) -> tuple[dict[str, _Action], WebAccess]:
        """Where each of the objects is, and as whom that was asked."""
        asked = {"operation": "download", "transfers": ["basic"], "objects": [{"oid": each.digest, "size": each.size} for each in part]}
        body = msgspec.json.encode(asked)
        access = await self._access(endpoint)
        answer = await self._post(endpoint, access, body)
        if answer.status in _REFUSED and endpoint.address is not None:
            access = await self._access(endpoint, rejected=True)
            answer = await self._post(endpoint, access, body)
        if answer.status != 200:
            raise self._refusal(answer)
        batch = _decode(answer.body, _Batch, self._url.shown)
        if batch.transfer not in (None, "", "basic"):
            raise LargeFileError(f"{self._url.shown}: Git LFS offers {batch.transfer!r}, and only basic transfers are known")
        found = {each.oid: each for each in batch.objects}
        return {each.digest: self._action(each, found.get(each.digest)) for each in part}, access

    async def _access(self, endpoint: _Endpoint, *, rejected: bool = False) -> WebAccess:
        if endpoint.address is None:
            return await self._host.stranger(endpoint.url)
        return await self._host.access(endpoint.address, rejected=rejected)

    async def _post(self, endpoint: _Endpoint, access: WebAccess, body: bytes) -> Fetched:
        headers = {"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE}
        given, others = _authorization(endpoint.headers)
        url, given = f"{endpoint.url}/objects/batch", given or access.authorization
        return await fetch(url, access, limit=_ANSWER_BYTES, headers=others | headers, method="POST", body=body, authorization=given)

    def _action(self, pointer: Pointer, found: _Object | None) -> _Action:
        action = (found.actions or {}).get("download") if found is not None else None
        if action is not None:
            return action
        problem = found.error if found is not None else None
        words = f" ({problem.code} {problem.message[:100]})" if problem is not None else ""
        hint = "`git lfs push --all` sends it there from a clone that has it"
        raise LargeFileError(f"{self._url.shown}: Git LFS does not have {pointer.digest[:12]}{words}", hint=hint, file=pointer.path)

    async def _download(self, pointer: Pointer, action: _Action, endpoint: _Endpoint, access: WebAccess, turns: asyncio.Semaphore) -> bytes:
        same_host = urlsplit(action.href)[:2] == urlsplit(endpoint.url)[:2]
        self._check_place(action.href, endpoint.url)
        given, others = _authorization(action.header or {})
        if same_host:
            given = given or _authorization(endpoint.headers)[0] or access.authorization
        else:
            access = await self._host.stranger(action.href)
        async with turns:
            answer = await fetch(action.href, access, limit=max(pointer.size, _ANSWER_BYTES), headers=others, authorization=given)
        if answer.status != 200:
            raise self._refusal(answer)
        if not hmac.compare_digest(hashlib.sha256(answer.body).hexdigest(), pointer.digest):
            words = f"{self._url.shown}: what Git LFS gives is not {pointer.digest[:12]}, but {len(answer.body)} other bytes"
            raise LargeFileError(words, hint="`git lfs fsck` in a clone that has it", file=pointer.path)
        await self._store.put(answer.body)
        return answer.body

    def _check_place(self, href: str, endpoint: str) -> None:
        """No server sends us to a place that its repository could not have named itself."""
        if urlsplit(href).scheme != "https" and urlsplit(endpoint).scheme == "https":
            raise LargeFileError(f"{self._url.shown}: Git LFS sends us to {hide_credentials(href).partition('?')[0]}, which is not https")
        if is_loopback(href) and not is_loopback(endpoint):
            raise LargeFileError(f"{self._url.shown}: Git LFS sends us to this machine")

    def _refusal(self, answer: Fetched) -> Exception:
        shown = hide_credentials(answer.url).partition("?")[0]
        if answer.status in _REFUSED:
            hint = "check that the repository's credentials may read what Git LFS keeps"
            return FetchAuthenticationError(f"{shown} refuses to give files of Git LFS: {answer.status} {answer.text}", hint=hint)
        if answer.status in _NOT_NOW:
            return FetchTransferError(f"{shown} answered {answer.status}: {answer.text}")
        return LargeFileError(f"{shown} answered {answer.status}: {answer.text}", hint="check that the host has Git LFS for it")


def has_pointer(files: Sequence[SourceFile]) -> bool:
    return any(is_lfs_pointer(file.data) for file in files)


def _authorization(headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The Authorization among headers, and the others."""
    others = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    return next((value for name, value in headers.items() if name.lower() == "authorization"), ""), others


def _decode(data: bytes, kind: type[Answer], shown: str) -> Answer:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise LargeFileError(f"{shown}: what answers for Git LFS is something else", hint="check the address of Git LFS") from error
