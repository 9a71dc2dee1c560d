"""Faults of writing into a repository.

GitError
 ├── IdentityError                input: an author that is nobody
 ├── BranchNotFoundError          input
 ├── BranchMovedError             conflict, retryable: somebody else keeps pushing
 ├── PushRejectedError            permission: the server takes the credentials, but not the push
 ├── RevertConflictError          conflict: later commits changed the same lines
 ├── ForeignCommitsError          conflict: later commits by others changed the same files
 └── UnrevertableError            input: a commit that is not on the branch, or is its first
"""

from delegate.engine.sources.errors import GitError
from delegate.foundation.errors import Category


class IdentityError(GitError):
    default_code = "input.git_author"
    category = Category.INPUT


class BranchNotFoundError(GitError):
    default_code = "input.branch_not_found"
    category = Category.INPUT


class BranchMovedError(GitError):
    default_code = "conflict.branch_moved"
    category = Category.CONFLICT
    default_retryable = True


class PushRejectedError(GitError):
    default_code = "permission.push_rejected"
    category = Category.PERMISSION


class RevertConflictError(GitError):
    default_code = "conflict.revert"
    category = Category.CONFLICT


class ForeignCommitsError(GitError):
    default_code = "conflict.foreign_commits"
    category = Category.CONFLICT


class UnrevertableError(GitError):
    default_code = "input.revert"
    category = Category.INPUT
