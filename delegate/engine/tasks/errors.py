"""What can go wrong in a task beyond its parts.

TaskError
├── UnsupportedTaskError    a kind or an option that this delegate doesn't do
├── MissingNamespaceError   a destination namespace that isn't there and isn't to be created
├── EmptyRenderError        a source that renders nothing, where everything would be pruned
├── OwnedElsewhereError     an object that another Application owns
├── OwnerBusyError          an owner that can't be kept from setting back just now
├── SetBackError            a second writer that takes back what was restored
├── InvalidQueryError       an expression that names no fields, or that never ends
├── PruneGuardError         a prune that wants to be confirmed
├── NothingToRollBackError  a rollback that would change nothing
├── KnownBadError           a set that was rolled back from
├── KindUnavailableError    a kind that the cluster doesn't serve
├── ChangedSincePlanError   an object that kept changing under the plan
├── PlanMismatchError       the plan is not the approved one
├── AuthorityLostError      the Lease in the cluster is another attempt's
├── UnhealthyError          the new revision can't become healthy
├── HealthTimeoutError      not healthy in time
├── PruneIncompleteError    objects that should be gone and aren't
├── CanaryUnreadyError      a set of pods that does not become ready
├── CanaryFailedError       a new version that did not hold what was asked of it
├── ForeignSetError         somebody else's object where a canary's would be, or a foreign hand on one
├── NotTheReleaseError      a new version that fails as the stable one does
├── GroupStoppedError       too many canaries of a group were convicted: none of it begins
└── CanaryBusyError         another canary works on the workload
"""

from delegate.foundation.errors import Category, DelegateError


class TaskError(DelegateError):
    """The root of this package's errors."""


class UnsupportedTaskError(TaskError):
    default_code = "input.unsupported"
    category = Category.INPUT


class MissingNamespaceError(TaskError):
    default_code = "input.namespace_not_found"
    category = Category.INPUT


class EmptyRenderError(TaskError):
    default_code = "policy.empty_render"
    category = Category.POLICY


class OwnedElsewhereError(TaskError):
    default_code = "conflict.owned_elsewhere"
    category = Category.CONFLICT


class OwnerBusyError(TaskError):
    default_code = "conflict.owner_busy"
    category = Category.CONFLICT


class SetBackError(TaskError):
    default_code = "conflict.set_back"
    category = Category.CONFLICT


class KindUnavailableError(TaskError):
    default_code = "input.unknown_kind"
    category = Category.INPUT


class InvalidQueryError(TaskError):
    default_code = "input.query"
    category = Category.INPUT


class NothingToRollBackError(TaskError):
    default_code = "policy.nothing_to_roll_back"
    category = Category.POLICY


class KnownBadError(TaskError):
    default_code = "policy.known_bad"
    category = Category.POLICY


class ObjectTerminatingError(TaskError):
    default_code = "conflict.terminating"
    category = Category.CONFLICT
    default_retryable = True


class ChangedSincePlanError(TaskError):
    default_code = "conflict.changed_since_plan"
    category = Category.CONFLICT
    default_retryable = True


class PlanMismatchError(TaskError):
    default_code = "policy.plan_not_approved"
    category = Category.POLICY


class HookFailedError(TaskError):
    default_code = "dependency.hook_failed"
    category = Category.DEPENDENCY


class UnhealthyError(TaskError):
    default_code = "dependency.unhealthy"
    category = Category.DEPENDENCY


class HealthTimeoutError(TaskError):
    default_code = "timeout.health"
    category = Category.TIMEOUT


class PruneGuardError(TaskError):
    default_code = "policy.prune_guard"
    category = Category.POLICY


class PruneIncompleteError(TaskError):
    default_code = "dependency.prune_incomplete"
    category = Category.DEPENDENCY
    default_retryable = True


class HelmFailedError(TaskError):
    default_code = "dependency.helm"
    category = Category.DEPENDENCY


class CanaryUnreadyError(TaskError):
    default_code = "dependency.canary_unready"
    category = Category.DEPENDENCY


class CanaryFailedError(TaskError):
    default_code = "policy.canary_failed"
    category = Category.POLICY


class ForeignSetError(TaskError):
    default_code = "conflict.foreign_set"
    category = Category.CONFLICT


class CanaryBusyError(TaskError):
    default_code = "conflict.canary_busy"
    category = Category.CONFLICT


class GroupStoppedError(TaskError):
    default_code = "policy.group_stopped"
    category = Category.POLICY


class NotTheReleaseError(TaskError):
    default_code = "dependency.not_the_release"
    category = Category.DEPENDENCY
