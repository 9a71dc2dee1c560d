"""Changes of configuration repositories, by tasks of any kind: as a commit on the branch, or as one that a merge request asks for.

Everything here can be called again for the same task and does what is left to do: a commit that is there is found by what it changed,
its branch by the task's id, a merge request by its branches.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
import structlog

from delegate.engine.forges.calls import ForgeAccess
from delegate.engine.forges.choosing import forge_for
from delegate.engine.forges.errors import ForgeAccessError
from delegate.engine.forges.places import place_of
from delegate.engine.forges.requests import Forge, MergeRequest, NewMergeRequest
from delegate.engine.sources.git.urls import RepositoryUrl, Transport
from delegate.engine.sources.git.writing import Build, Published, RepositoryWriter, publish
from delegate.engine.sources.git.writing_errors import PushRejectedError
from delegate.engine.sources.git.writing_reverts import Revert, revert_on_branch
from delegate.engine.tasks.preparing import Parts
from delegate.foundation.lifecycle.retrying import RetryDetails, Retrying, retrying
from delegate.model.updates.messages import TASK_TRAILER, branch_for, title_of
from delegate.model.updates.requests import UpdateMode

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Written(msgspec.Struct, frozen=True):
    """`commit` is on `branch`; `made`: whether this task made it. `url` is the merge request's page, empty without one."""

    commit: str
    branch: str
    made: bool
    url: str = ""


class RepositoryChanges:
    """Changes of one repository, for one task, until its deadline (of the running loop).

    Raises the faults of reaching a repository, PushRejectedError, BranchMovedError, BranchNotFoundError, and ForgeError.
    """

    def __init__(self, parts: Parts, repo_url: str, *, application: str, task_id: str, policy: Retrying, deadline: float) -> None:
        self._parts = parts
        self._url = parts.sources.repositories.parse(repo_url)
        self._application = application
        self._task_id = task_id
        self._policy = policy
        self._deadline = deadline
        self.pushed = False
        """Whether something of this task is in the repository."""
        self.writer: RepositoryWriter = parts.sources.repositories.writer(self._url, parts.author)

    async def tip(self, branch: str) -> tuple[str, str]:
        """A branch (by default the repository's own) and the commit that it is at."""

        async def look() -> tuple[str, str]:
            name = branch or await self.writer.default_branch()
            return name, await self.writer.tip(name)

        return await retrying(look, self._policy, deadline=self._deadline, on_retry=_log)

    async def change(self, branch: str, build: Build, mode: UpdateMode, *, title: str, text: str) -> Written:
        """Publishes what `build` makes, on the branch or beside it."""
        if mode is UpdateMode.COMMIT:
            published = await self._publish(build, branch, "")
            return Written(published.commit, branch, published.made)
        forge = await self._forge()  # before anything is pushed: without one, the branch would be for nobody
        own = branch_for(self._application, self._task_id)
        published = await self._publish(build, own, branch)
        request = await self.open_request(forge, NewMergeRequest(own, branch, title, text))
        return Written(published.commit, own, published.made, request.url)

    async def revert(self, revert: Revert, mode: UpdateMode, *, text: str) -> Written:
        """Reverts a commit (see `revert_on_branch`), on `revert.branch` or beside it."""
        forge = await self._forge() if mode is UpdateMode.MERGE_REQUEST else None
        if forge is not None:
            own = branch_for(self._application, f"revert {revert.commit} {self._task_id}")
            revert = msgspec.structs.replace(revert, start=revert.branch, branch=own)

        async def take_back() -> Written:
            done = await revert_on_branch(self.writer, revert)
            if forge is None or not done.published.made:
                return Written(done.published.commit, revert.branch, done.published.made)
            wanted = NewMergeRequest(revert.branch, revert.start, title_of(f'Revert "{done.subject}"'), text)
            request = await self.open_request(forge, wanted)
            return Written(done.published.commit, revert.branch, True, request.url)

        return await retrying(take_back, self._policy, deadline=self._deadline, on_retry=_log)

    async def open_request(self, forge: Forge, wanted: NewMergeRequest) -> MergeRequest:
        """The one merge request for two branches; a token that can be renewed is got anew where it is refused."""

        async def ask() -> MergeRequest:
            try:
                return await forge.open(wanted)
            except ForgeAccessError:
                again = await self._forge(rejected=True)
                return await again.open(wanted)

        request = await retrying(ask, self._policy, deadline=self._deadline, on_retry=_log)
        log.info("git.merge_request_open", repository=self._url.shown, branch=wanted.source_branch, url=request.url)
        return request

    async def _publish(self, build: Build, branch: str, start: str) -> Published:
        async def push() -> Published:
            return await publish(self.writer, build, branch=branch, task=self._task_id, start=start)

        try:
            published = await retrying(push, self._policy, deadline=self._deadline, on_retry=_log)
        except PushRejectedError as error:
            if not start:
                error.hint = "where the branch is protected, use mode: merge-request, or let the delegate's user push to it"
            raise
        self.pushed = published.made
        return published

    async def _forge(self, *, rejected: bool = False) -> Forge:
        place_of(self._url.address, self._parts.forges)
        repositories = self._parts.sources.repositories
        login = await repositories.login_for(_web_address(self._url, self._parts), rejected=rejected)
        access = ForgeAccess(
            username=login.username,
            token=login.password or login.bearer_token,
            authority=login.authority,
            insecure=login.insecure,
            **({"proxies": login.proxies} if login.proxies is not None else {}),
        )
        return forge_for(self._url.address, access, self._parts.forges)


async def revert_commit(
    parts: Parts,
    *,
    repo_url: str,
    branch: str,
    commit: str,
    mode: UpdateMode,
    application: str,
    task_id: str,
    policy: Retrying,
    deadline: float,
    evidence: str = "",
    paths: Sequence[str] = (),
) -> Written:
    """Takes a commit back in the repository that an Application comes from; `made` is false where that was done already.

    `branch` may be empty for the repository's own; `paths` are the Application's own, where commits of others stop it too. Raises
    UnrevertableError, RevertConflictError and ForeignCommitsError (nothing was pushed then), and what RepositoryChanges raises.
    """
    changes = RepositoryChanges(parts, repo_url, application=application, task_id=task_id, policy=policy, deadline=deadline)
    name, _ = await changes.tip(branch)
    revert = Revert(commit, name, task_id, evidence=evidence, paths=tuple(paths))
    text = f"{evidence.strip()}\n\nThis reverts commit {commit}.\n\n{TASK_TRAILER}: {task_id}".strip()
    return await changes.revert(revert, mode, text=text)


def _web_address(url: RepositoryUrl, parts: Parts) -> RepositoryUrl:
    """The address over https of a repository that is read by ssh, whose entry holds the token for the interface."""
    if url.transport is not Transport.SSH:
        return url
    path = urlsplit(url.address).path if "://" in url.address else url.address.rpartition(":")[2]
    return parts.sources.repositories.parse(f"https://{url.host}/{path.strip('/')}")


def _log(details: RetryDetails) -> None:
    error = details.error
    log.info("git.retried", code=error.code, error=error.message, attempt=details.attempt, delay_seconds=round(details.wait_seconds, 3))
