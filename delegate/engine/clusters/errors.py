"""What can go wrong between us and a cluster, told apart so that a caller can act on it.

    ClusterError
        KubeconfigError                 no file, no such context, malformed                        input
        UnknownClusterError             a destination that names no cluster of ours                input
        CredentialError                 a token, certificate or plugin that can't be had           permission
        UnreachableError                refused, reset, no such host, cut off in the middle        transient
            DeadlineError               no answer in time                                          timeout
            TlsError                    the other side isn't who we asked for                      dependency
        NotJsonError                    something else than an API server answers                  dependency
        AnswerTooLargeError             more bytes than we are willing to hold                     dependency
        UnknownKindError                the cluster doesn't serve that kind or version             dependency
        GroupUnavailableError           an aggregated API group that is away for now               dependency
        ApiError                        an answer of the API server with a status of 400 or more
            UnauthorizedError           401                                                        permission
            ForbiddenError              403                                                        permission, policy
                RbacError                   no rule allows it; names the rule to add               permission
                EscalationError             a role that grants more than we hold                   permission
                QuotaError                  a quota is used up                                     policy
                LimitRangeError             over (or under) a limit range                          policy
                PodSecurityError            the namespace's pod security level                     policy
                AdmissionDeniedError        a webhook or an admission policy said no (403 or 422)  policy
                NamespaceTerminatingError   nothing new in a namespace on its way out              conflict
            NotFoundError               the object doesn't exist                                   dependency
            MissingReferenceError       something that the object names doesn't exist              dependency
                NamespaceNotFoundError      the namespace that it should go to                     dependency
            ConflictError               409                                                        conflict
                FieldManagerConflictError   others own fields that we set; names both              conflict
                StaleObjectError            changed since the resourceVersion we know              conflict
                RecreatedObjectError        another object by the same name                        conflict
                AlreadyExistsError                                                                 conflict
            DisruptionBudgetError       an eviction that has to wait                               policy
            InvalidError                422, with a cause for each field                           input
                ImmutableFieldError         every cause is a field that can't change               input
            SchemaError                 400, or 500 under server-side apply: never retried         input
            RequestTooLargeError        413                                                        input
            ExpiredError                410: a continue token or resourceVersion is too old        transient
            TooManyRequestsError        429                                                        transient
            ServerTimeoutError          504                                                        transient
            UnavailableError            502, 503                                                   transient
            WebhookUnreachableError     an admission or conversion webhook that doesn't answer     dependency
            InternalServerError         any other 5xx                                              dependency

`retryable` says whether the same request may succeed later without anybody changing it.
"""

from typing import NamedTuple

from delegate.foundation.errors import Category, DelegateError


class ClusterError(DelegateError):
    """Any fault of a cluster or of the way to it."""

    default_code = "dependency.cluster"
    category = Category.DEPENDENCY


class KubeconfigError(ClusterError):
    default_code = "input.kubeconfig"
    category = Category.INPUT


class UnknownClusterError(ClusterError):
    default_code = "input.unknown_cluster"
    category = Category.INPUT


class CredentialError(ClusterError):
    default_code = "permission.credentials"
    category = Category.PERMISSION


class UnreachableError(ClusterError):
    """`unsent`: the request never left us, so it can't have done anything."""

    unsent: bool = False
    default_code = "transient.unreachable"
    category = Category.TRANSIENT
    default_retryable = True


class DeadlineError(UnreachableError):
    default_code = "timeout.api_call"
    category = Category.TIMEOUT


class TlsError(UnreachableError):
    default_code = "dependency.tls"
    category = Category.DEPENDENCY
    default_retryable = False


class NotJsonError(ClusterError):
    default_code = "dependency.not_an_api_server"


class AnswerTooLargeError(ClusterError):
    default_code = "dependency.answer_too_large"


class UnknownKindError(ClusterError):
    default_code = "dependency.unknown_kind"


class GroupUnavailableError(ClusterError):
    default_code = "dependency.api_group_unavailable"
    default_retryable = True


class Cause(NamedTuple):
    """One entry of a Status body's `details.causes`; `field` as the server writes it (`spec.ports[0].port`)."""

    reason: str
    field: str
    message: str


class ApiError(ClusterError):
    """An answer with a status of 400 or more. `status` is the HTTP status, `reason` the Status body's word for it."""

    status: int = 0
    reason: str = ""
    causes: tuple[Cause, ...] = ()


class UnauthorizedError(ApiError):
    default_code = "permission.unauthorized"
    category = Category.PERMISSION


class ForbiddenError(ApiError):
    default_code = "permission.forbidden"
    category = Category.PERMISSION


class RbacError(ForbiddenError):
    """`verb` on `resource` (with its subresource) of `group` is missing, in `namespace` or, where that is empty, cluster-wide."""

    default_code = "permission.rbac"
    user: str = ""
    verb: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""


class EscalationError(ForbiddenError):
    default_code = "permission.escalation"


class QuotaError(ForbiddenError):
    default_code = "policy.quota"
    category = Category.POLICY


class LimitRangeError(ForbiddenError):
    default_code = "policy.limit_range"
    category = Category.POLICY


class PodSecurityError(ForbiddenError):
    default_code = "policy.pod_security"
    category = Category.POLICY


class AdmissionDeniedError(ForbiddenError):
    """`admission` names the webhook or the policy that refused."""

    default_code = "policy.admission"
    category = Category.POLICY
    admission: str = ""


class NamespaceTerminatingError(ForbiddenError):
    default_code = "conflict.namespace_terminating"
    category = Category.CONFLICT
    default_retryable = True


class NotFoundError(ApiError):
    default_code = "dependency.not_found"


class MissingReferenceError(ApiError):
    """`missing_kind` (as the server calls it: a kind or a plural) by the name `missing_name` would have to exist first."""

    default_code = "dependency.missing_reference"
    missing_kind: str = ""
    missing_name: str = ""


class NamespaceNotFoundError(MissingReferenceError):
    default_code = "dependency.namespace_not_found"


class ConflictError(ApiError):
    default_code = "conflict.other"
    category = Category.CONFLICT


class FieldConflict(NamedTuple):
    """A field that another manager owns; `field` as server-side apply writes it (`.spec.replicas`)."""

    manager: str
    subresource: str
    field: str


class FieldManagerConflictError(ConflictError):
    default_code = "conflict.field_manager"
    conflicts: tuple[FieldConflict, ...] = ()

    @property
    def managers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(conflict.manager for conflict in self.conflicts))

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(conflict.field for conflict in self.conflicts))


class StaleObjectError(ConflictError):
    default_code = "conflict.resource_version"


class RecreatedObjectError(ConflictError):
    default_code = "conflict.uid"


class AlreadyExistsError(ConflictError):
    default_code = "conflict.already_exists"


class DisruptionBudgetError(ApiError):
    default_code = "policy.disruption_budget"
    category = Category.POLICY
    default_retryable = True


class InvalidError(ApiError):
    default_code = "input.invalid"
    category = Category.INPUT


class ImmutableFieldError(InvalidError):
    """Only where each cause proves it: replacing the object would help, changing it never will."""

    default_code = "input.immutable_field"


class SchemaError(ApiError):
    default_code = "input.schema"
    category = Category.INPUT


class RequestTooLargeError(ApiError):
    default_code = "input.too_large"
    category = Category.INPUT


class ExpiredError(ApiError):
    default_code = "transient.expired"
    category = Category.TRANSIENT
    default_retryable = True


class TooManyRequestsError(ApiError):
    default_code = "transient.too_many_requests"
    category = Category.TRANSIENT
    default_retryable = True


class ServerTimeoutError(ApiError):
    default_code = "transient.server_timeout"
    category = Category.TRANSIENT
    default_retryable = True


class UnavailableError(ApiError):
    default_code = "transient.unavailable"
    category = Category.TRANSIENT
    default_retryable = True


class WebhookUnreachableError(ApiError):
    """`webhook` is its name where the server says it."""

    default_code = "dependency.webhook"
    default_retryable = True
    webhook: str = ""


class InternalServerError(ApiError):
    default_code = "dependency.internal_server_error"
