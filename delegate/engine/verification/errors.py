"""Faults of evidence: none of them says anything about a release.

VerificationError
├── ProviderConfigurationError   an entry of the delegate's configuration that can't be meant, or a name that it hasn't   input
├── ProviderRefusedError         401, 403: the same question will never be answered                                       permission
│   └── ProviderQuestionError    400, 404, 422, and what a source says of the question itself                             input
├── ProviderUnavailableError     408, 429, 5xx, the network: `retry_after` where the backend says when                    transient
├── UnreadableAnswerError        something else than the documented format: HTML, other types, an error inside a 200      dependency
└── NotVerifiedError             what a verification came to that is not good
    ├── CheckFailedError            evidence against the release                                                          dependency
    ├── SourceUnavailableError      sources that don't answer: nothing is known of the release                            dependency
    ├── MissingEvidenceError        not enough evidence in time: nothing is known of the release                          dependency
    └── CheckConfigurationError     a question that can't be answered as it is asked                                      input
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


class ProviderQuestionError(ProviderRefusedError):
    default_code = "input.provider_question"
    category = Category.INPUT


class ProviderUnavailableError(VerificationError):
    default_code = "transient.provider"
    category = Category.TRANSIENT
    default_retryable = True


class UnreadableAnswerError(VerificationError):
    default_code = "dependency.provider_answer"


class NotVerifiedError(VerificationError):
    """The root of a verification's own verdicts."""


class CheckFailedError(NotVerifiedError):
    default_code = "dependency.check_failed"


class SourceUnavailableError(NotVerifiedError):
    default_code = "dependency.source_unavailable"


class MissingEvidenceError(NotVerifiedError):
    default_code = "dependency.no_evidence"


class CheckConfigurationError(NotVerifiedError):
    default_code = "input.check"
    category = Category.INPUT
