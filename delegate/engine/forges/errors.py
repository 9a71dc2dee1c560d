"""Faults of talking to a forge's interface. Each message says what was asked of whom, and what the server said.

ForgeError
├── UnknownForgeError           input: nobody said which kind of forge a host is
├── ForgeAccessError            permission: 401, or nothing to present
├── ForgeForbiddenError         permission: 403
├── ForgeNotFoundError          input: 404, which forges also say where the credentials may not look
├── ForgeRefusedError           conflict: 400, 409, 422: exists already, or can't be meant
├── ForgeLimitError             retryable, with the seconds to wait: 429
├── ForgeUnavailableError       retryable: 5xx, unreachable, too slow
└── ForgeAnswerError            dependency: an answer that is not in the documented form
"""

from delegate.foundation.errors import Category, DelegateError


class ForgeError(DelegateError):
    """The root of this package's errors. `status` is that of the answer, 0 without one."""

    default_code = "dependency.forge"
    category = Category.DEPENDENCY
    status: int = 0


class UnknownForgeError(ForgeError):
    default_code = "input.unknown_forge"
    category = Category.INPUT


class ForgeAccessError(ForgeError):
    default_code = "permission.forge_credentials"
    category = Category.PERMISSION


class ForgeForbiddenError(ForgeError):
    default_code = "permission.forge"
    category = Category.PERMISSION


class ForgeNotFoundError(ForgeError):
    default_code = "input.forge_not_found"
    category = Category.INPUT


class ForgeRefusedError(ForgeError):
    default_code = "conflict.forge"
    category = Category.CONFLICT


class ForgeLimitError(ForgeError):
    default_code = "transient.forge_limit"
    category = Category.TRANSIENT
    default_retryable = True


class ForgeUnavailableError(ForgeError):
    default_code = "transient.forge"
    category = Category.TRANSIENT
    default_retryable = True


class ForgeAnswerError(ForgeError):
    default_code = "dependency.forge_answer"
