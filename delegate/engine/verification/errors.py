"""Faults of evidence: none of them says anything about a release.

VerificationError
├── ProviderConfigurationError   an entry of the delegate's configuration that can't be meant, or a name that it hasn't   input
├── ProviderRefusedError         400, 401, 403, 404, 422: the same question will never be answered                        permission, input
├── ProviderUnavailableError     408, 429, 5xx, the network: `retry_after` where the backend says when                    transient
└── UnreadableAnswerError        something else than the documented format: HTML, other types, an error inside a 200      dependency
"""

from delegate.foundation.errors import Category, DelegateError


class VerificationError(DelegateError):
    default_code = "dependency.verification"
    category = Category.DEPENDENCY


class ProviderConfigurationError(VerificationError):
    default_code = "input.provider"
    category = Category.INPUT


class ProviderRefusedError(VerificationError):
    default_code = "permission.provider"
    category = Category.PERMISSION


class ProviderUnavailableError(VerificationError):
    default_code = "transient.provider"
    category = Category.TRANSIENT
    default_retryable = True


class UnreadableAnswerError(VerificationError):
    default_code = "dependency.provider_answer"
