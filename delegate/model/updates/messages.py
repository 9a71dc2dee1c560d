"""What commits and merge requests say, and how a commit of ours is known again."""

import hashlib
import re
from collections.abc import Sequence

from delegate.model.updates.requests import GitUpdateSpec
from delegate.model.updates.splicing import Touched

TASK_TRAILER = "Delegate-Task"
_SUBJECT_CHARACTERS = 200
_LISTED = 30


def commit_message(update: GitUpdateSpec, *, application: str, environment: str, task: str) -> str:
    """The message as asked for, else `deploy(<environment>): <application> <tag>`; the task's id as a trailer below."""
    text = update.message.strip() or _default(update, application, environment)
    return with_trailer(text, task)


def with_trailer(text: str, task: str) -> str:
    """A message with the task's id as its last line; trailers that stand there already stay one block."""
    text = text.rstrip()
    last = text.rpartition("\n\n")[2] if "\n\n" in text else ""
    is_block = bool(last) and all(re.match(r"[A-Za-z][A-Za-z0-9-]*: \S", line) for line in last.splitlines())
    return f"{text}{'' if is_block else chr(10)}\n{TASK_TRAILER}: {task}\n"


def has_trailer(message: str, task: str) -> bool:
    """Whether a commit was made for a task."""
    return f"{TASK_TRAILER}: {task}" in message.splitlines()


def title_of(message: str) -> str:
    """The first line, short enough for a merge request."""
    return message.strip().splitlines()[0][:_SUBJECT_CHARACTERS]


def branch_for(application: str, task: str) -> str:
    """The branch that a task's merge request comes from: the same whenever the task runs again."""
    return f"delegate/{application}-{hashlib.sha256(task.encode()).hexdigest()[:12]}"


def describe_changes(touched: Sequence[Touched], evidence: str, task: str) -> str:
    """The text of a merge request: why, and what changes where."""
    lines = [evidence.strip(), ""] if evidence.strip() else []
    for each in touched[:_LISTED]:
        before = "(nothing)" if each.before is None else f"`{_on_one_line(each.before)}`"
        lines.append(f"- `{each.file}:{each.line}` `{each.path}`: {before} → `{_on_one_line(each.after or '')}`")
    if len(touched) > _LISTED:
        lines.append(f"- and {len(touched) - _LISTED} more")
    return "\n".join([*lines, "", f"{TASK_TRAILER}: {task}"])


def revert_message(subject: str, commit: str, evidence: str, task: str) -> str:
    """As `git revert` writes it, so that other tools know what was reverted."""
    why = f"\n\n{evidence.strip()}" if evidence.strip() else ""
    return with_trailer(f'Revert "{subject}"\n\nThis reverts commit {commit}.{why}', task)


def _default(update: GitUpdateSpec, application: str, environment: str) -> str:
    where = f"({environment})" if environment else ""
    references = list(dict.fromkeys(update.images.values()))
    if len(references) == 1:
        what = references[0]
    elif references:
        what = ", ".join(f"{name.rpartition('/')[2]} {tag}" for name, tag in update.images.items())
    else:
        values = list(dict.fromkeys(str(edit.value) for edit in update.edits))
        what = values[0] if len(values) == 1 else f"{len(update.edits)} values"
    return _on_one_line(f"deploy{where}: {application} {what}")[:_SUBJECT_CHARACTERS]


def _on_one_line(text: str) -> str:
    return " ".join(text.split())[:_SUBJECT_CHARACTERS].replace("`", "'")
