"""Job and CronJob."""

from delegate.model.health.conditions import Circumstances, condition_of, integer, sequence, spec_of, status_of
from delegate.model.health.verdicts import HEALTHY, Health, HealthStatus, degraded, progressing, suspended
from delegate.model.resources import JsonObject


def assess_job(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """Done when Complete is True. FailureTarget and SuccessCriteriaMet say how it is about to end, not that it has."""
    failed, complete = condition_of(obj, "Failed"), condition_of(obj, "Complete")
    if failed and failed.is_true:
        return degraded(failed.reason or "JobFailed", failed.message)
    if complete and complete.is_true:
        return HEALTHY
    for coming in ("FailureTarget", "SuccessCriteriaMet"):
        condition = condition_of(obj, coming)
        if condition and condition.is_true:
            return progressing(coming, condition.message)
    held = condition_of(obj, "Suspended")
    if spec_of(obj).get("suspend") or (held and held.is_true):
        return suspended(held.reason if held and held.is_true else "JobSuspended", "the Job is suspended")
    status = status_of(obj)
    done, wanted = integer(status, "succeeded"), integer(spec_of(obj), "completions", 1)
    words = f"{done} of {wanted} completions, {integer(status, 'active')} active, {integer(status, 'failed')} failed"
    return progressing("JobRunning", words)


def assess_cron_job(obj: JsonObject, circumstances: Circumstances) -> Health:
    """Always done for whoever waits for a write: runs before it say nothing of it. Else Degraded after a failed run."""
    spec, status = spec_of(obj), status_of(obj)
    scheduled, succeeded = str(status.get("lastScheduleTime") or ""), str(status.get("lastSuccessfulTime") or "")
    # RFC 3339 in UTC to the second, as the API writes times: text sorts as time does.
    failed = bool(succeeded) and succeeded < scheduled and not sequence(status, "active")
    if spec.get("suspend") or not failed:
        return HEALTHY
    words = f"the run of {scheduled} has not succeeded"
    if circumstances.generation is not None:
        return Health(HealthStatus.HEALTHY, "LastRunFailed", words)
    return degraded("LastRunFailed", words)
