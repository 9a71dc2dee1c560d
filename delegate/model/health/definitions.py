"""CustomResourceDefinition and APIService: whether the API serves what they bring."""

from delegate.model.health.conditions import Circumstances, condition_of
from delegate.model.health.verdicts import HEALTHY, Health, degraded, progressing
from delegate.model.resources import JsonObject


def assess_definition(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """Done when Established. A schema or names that the server does not take are Degraded."""
    terminating = condition_of(obj, "Terminating")
    if terminating and terminating.is_true:
        return progressing(terminating.reason or "Terminating", terminating.message)
    names = condition_of(obj, "NamesAccepted")
    if names and names.is_false:
        return degraded(names.reason or "NamesNotAccepted", names.message)
    unstructural = condition_of(obj, "NonStructuralSchema")
    if unstructural and unstructural.is_true:
        return degraded(unstructural.reason or "NonStructuralSchema", unstructural.message)
    established = condition_of(obj, "Established")
    if established and established.is_true:
        return HEALTHY
    if established and established.is_false and established.reason != "Installing":
        return degraded(established.reason or "NotEstablished", established.message)
    return progressing(established.reason if established else "NotEstablished", established.message if established else "")


def assess_api_service(obj: JsonObject, circumstances: Circumstances) -> Health:
    """Done when Available; not available once settled is Degraded: discovery of its group is partial meanwhile."""
    available = condition_of(obj, "Available")
    if available and available.is_true:
        return HEALTHY
    if available and available.is_false and circumstances.settled:
        return degraded(available.reason or "NotAvailable", available.message)
    return progressing(available.reason if available else "NotAvailable", available.message if available else "")
