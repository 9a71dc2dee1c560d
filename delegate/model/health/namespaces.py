"""Namespace."""

from delegate.model.health.conditions import Circumstances, status_of
from delegate.model.health.verdicts import HEALTHY, Health, progressing
from delegate.model.resources import JsonObject


def assess_namespace(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """Done when active; nothing new is let into one that is on its way out."""
    if status_of(obj).get("phase") == "Terminating":
        return progressing("Terminating", "the namespace is being deleted")
    return HEALTHY
