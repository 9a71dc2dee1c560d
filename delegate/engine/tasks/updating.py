"""The git-update task: new tags or values in a configuration repository, in one commit, or as a merge request.

    policy -> the branch's tip -> the changed files -> commit and push (again where the branch has moved) -> merge request

No cluster is asked. What has the wanted values already is left alone, and that is a success that says so.
"""

import time

import msgspec
import structlog

from delegate.engine.sources.git.writing import Prepared, RepositoryWriter
from delegate.engine.sources.git.writing_trees import CommitFiles
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.preparing import Parts, retrying_of
from delegate.engine.tasks.writing_repositories import RepositoryChanges, Written
from delegate.foundation.errors import Category, DelegateError
from delegate.model.policies.exemptions import exemptions_of
from delegate.model.policies.rules import fits
from delegate.model.policies.violations import PolicyAction
from delegate.model.results import Outcome, TaskResult, describe_error
from delegate.model.tasks import Task
from delegate.model.updates.applying import Updated, apply_update
from delegate.model.updates.errors import MutableTagError
from delegate.model.updates.messages import commit_message, describe_changes, title_of
from delegate.model.updates.requests import GitUpdateSpec, read_update, refuse_mutable

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_RULE = "mutable-tags"
_REFUSING = (Category.INPUT, Category.POLICY, Category.PERMISSION, Category.CONFLICT)
_TOLD = 100


class GitUpdateRun:
    """One attempt of a git-update task."""

    def __init__(self, task: Task, context: AttemptContext, parts: Parts) -> None:
        self._update = read_update(task.spec)
        self._task = task
        self._context = context
        self._parts = parts
        self._changes = RepositoryChanges(
            parts,
            self._update.repo_url,
            application=task.application,
            task_id=context.task_id,
            policy=retrying_of(task, parts),
            deadline=context.deadline,
        )
        self._notices: dict[str, None] = dict.fromkeys(task.notices)
        self._revision = ""
        self._message = ""
        self._began = time.monotonic()
        self._seconds: dict[str, float] = {}

    async def execute(self) -> None:
        await self._check_policy()
        branch, tip = await self._changes.tip(self._update.branch)
        self._revision = tip
        self._lap("resolve")
        planned = await self._updated(tip)
        self._lap("plan")
        self._context.report("git.planned", {"branch": branch, "commit": tip, "files": sorted(planned.files)})
        if not planned.files:
            self._message = f"nothing to change: {branch} has it already, at {tip[:12]}"
            return
        self._tell(planned)
        if self._task.options.dry_run:
            self._message = f"would change {_count(planned)} on {branch}"
            return
        written = await self._write(branch, planned)
        self._revision = written.commit
        self._lap("push")
        self._message = _words(written, planned, branch)
        self._context.report("git.pushed", {"branch": written.branch, "commit": written.commit, "url": written.url})

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        untouched = not self._changes.pushed
        if error is not None and outcome is Outcome.FAILED and untouched and error.category in _REFUSING and not error.retryable:
            outcome = Outcome.REFUSED
        errors = describe_error(error) if error is not None else ()
        return TaskResult(
            task=self._context.task_id,
            attempt=self._context.attempt_id,
            kind=self._task.kind.value,
            application=self._task.application,
            outcome=outcome or Outcome.SUCCEEDED,
            revision=self._revision,
            message=message or (error.message if error is not None else self._message),
            error=errors[0] if errors else None,
            errors=errors,
            notices=tuple(self._notices),
            seconds=self._seconds,
        )

    async def _check_policy(self) -> None:
        """Raises MutableTagError where the policy denies such tags, unless the Application may be and is exempt."""
        await self._parts.policies.refresh()
        rule = self._parts.policies.shipped_rule(_RULE, self._task.environment)
        if rule is None:
            return
        try:
            refuse_mutable(self._update, rule.values)
        except MutableTagError as error:
            asked = _RULE in exemptions_of(self._task.annotations)
            exempt = asked and bool(rule.may_be_exempt) and fits(self._task.application, rule.may_be_exempt)
            log.info("policy.violated", rule=_RULE, action=rule.action.value, exempt=exempt, environment=self._task.environment)
            if rule.action is PolicyAction.DENY and not exempt:
                raise
            if rule.action is PolicyAction.WARN or exempt:
                self._notices[error.message] = None

    async def _write(self, branch: str, planned: Updated) -> Written:
        message = commit_message(
            self._update, application=self._task.application, environment=self._task.environment, task=self._context.task_id
        )

        async def build(tip: str) -> Prepared | None:
            updated = planned if tip == self._revision else await self._updated(tip)
            if not updated.files:
                return None
            return Prepared(await self._writer.write_tree(tip, updated.files), message)

        text = describe_changes(planned.touched, self._update.evidence, self._context.task_id)
        return await self._changes.change(branch, build, self._update.mode, title=title_of(message), text=text)

    @property
    def _writer(self) -> RepositoryWriter:
        return self._changes.writer

    async def _updated(self, tip: str) -> Updated:
        """What the request makes of the files of a commit."""
        files = await self._writer.files_of(tip)
        update = await _with_real_paths(self._update, files)
        searched: list[str] = []
        if update.images:
            directory = "" if update.path in ("", ".") else await files.resolve(update.path)
            searched = files.below(directory)
        contents = await files.read(list(dict.fromkeys([*searched, *(edit.file for edit in update.edits)])))
        updated = apply_update(update, contents, searched)
        for file in updated.skipped:
            self._notices[f"{file} was not looked into: it is no YAML"] = None
        return updated

    def _tell(self, planned: Updated) -> None:
        for each in planned.touched[:_TOLD]:
            before = "" if each.before is None else f"{each.before} -> "
            self._notices[f"{each.file}:{each.line} {each.path}: {before}{each.after}"] = None

    def _lap(self, step: str) -> None:
        now = time.monotonic()
        self._seconds[step] = round(now - self._began, 3)
        self._began = now


async def _with_real_paths(update: GitUpdateSpec, files: CommitFiles) -> GitUpdateSpec:
    """The request with links followed, so that the file that is written is the one that is read."""
    edits = [msgspec.structs.replace(edit, file=await files.resolve(edit.file)) for edit in update.edits]
    return msgspec.structs.replace(update, edits=tuple(edits))


def _count(planned: Updated) -> str:
    values, files = len(planned.touched), len(planned.files)
    return f"{values} value{'s' * (values != 1)} in {files} file{'s' * (files != 1)}"


def _words(written: Written, planned: Updated, branch: str) -> str:
    if not written.made:
        return f"nothing to change: {written.branch} has it already, at {written.commit[:12]}"
    if written.url:
        return f"{_count(planned)}: merge request for {branch}: {written.url}"
    return f"{_count(planned)} changed on {written.branch}, commit {written.commit[:12]}"
