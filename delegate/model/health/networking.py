"""Service and Ingress."""

from delegate.model.health.conditions import Circumstances, mapping, sequence, spec_of, status_of
from delegate.model.health.verdicts import HEALTHY, Health, progressing
from delegate.model.resources import JsonObject


def assess_service(obj: JsonObject, circumstances: Circumstances) -> Health:
    """Done by existing; one of type LoadBalancer when it has an address, unless the caller doesn't wait for those."""
    if spec_of(obj).get("type") != "LoadBalancer" or circumstances.needs_address is False:
        return HEALTHY
    return HEALTHY if _has_address(obj) else progressing("AddressPending", "has no load balancer address yet")


def assess_ingress(obj: JsonObject, circumstances: Circumstances) -> Health:
    """Done by existing: many controllers never publish an address. Waiting for one has to be asked for."""
    if not circumstances.needs_address or _has_address(obj):
        return HEALTHY
    return progressing("AddressPending", "has no load balancer address yet")


def _has_address(obj: JsonObject) -> bool:
    return bool(sequence(mapping(status_of(obj), "loadBalancer"), "ingress"))
