"""Cluster addresses and node ports that Services hold."""

from collections.abc import Iterator

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.statuses import Cause

NODE_PORTS = (30000, 32767)


class Addresses:
    """Who holds which address and port; a Service is named by namespace and name."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, str]] = {}
        self._ports: dict[tuple[str, int], tuple[str, str]] = {}
        self._next_address = self._addresses()
        self._next_port = self._port_numbers()
        self.pod_count = 0

    def _addresses(self) -> Iterator[str]:
        while True:
            for index in range(2, 65_000):
                yield f"10.0.{index // 250}.{index % 250 + 1}"

    def _port_numbers(self) -> Iterator[int]:
        while True:
            yield from range(NODE_PORTS[0] + 1000, NODE_PORTS[1] + 1)

    def next_pod_address(self) -> str:
        self.pod_count += 1
        return f"10.1.{self.pod_count // 250 % 250}.{self.pod_count % 250 + 2}"

    def keep_pod_address(self, address: str) -> None:
        """Gives out only later ones from now on."""
        third, fourth = (int(part) for part in address.split(".")[2:])
        self.pod_count = max(self.pod_count, third * 250 + fourth - 2)

    def allocate(self, service: JsonObject, *, keep: bool) -> list[Cause]:
        """Gives a Service its addresses and node ports, in place; `keep` says whether it holds them from now on."""
        spec, owner = service["spec"], (service["metadata"].get("namespace", ""), service["metadata"]["name"])
        causes: list[Cause] = []
        if spec["type"] == "ExternalName":
            return causes
        address = spec.get("clusterIP") or next((item for item in spec.get("clusterIPs") or ()), "")
        if not address:
            address = next(item for item in self._next_address if item not in self._owners)
        elif address != "None" and not address.startswith("10.0."):
            why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is 10.0.0.0/16"
            causes.append(statuses.invalid_value("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}"))
        elif address != "None" and self._owners.get(address, owner) != owner:
            causes.append(
                statuses.invalid_value(
                    "spec.clusterIPs", [address], "failed to allocate IP " + address + ": provided IP is already allocated"
                )
            )
        spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [address])
        both = address == "None" and not spec.get("selector") and spec.get("ipFamilyPolicy") != "SingleStack"
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
        if address != "None" and keep and not causes:
            self._owners[address] = owner
        if spec["type"] in ("NodePort", "LoadBalancer") and not (
            spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False
        ):
            causes += self._allocate_ports(spec, owner, keep=keep and not causes)
        if spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local" and not spec.get("healthCheckNodePort"):
            number = next(item for item in self._next_port if ("TCP", item) not in self._ports)
            spec["healthCheckNodePort"] = number
            if keep and not causes:
                self._ports["TCP", number] = owner
        return causes

    def _allocate_ports(self, spec: JsonObject, owner: tuple[str, str], *, keep: bool) -> list[Cause]:
        causes = []
        for index, port in enumerate(spec.get("ports", ())):
            number, protocol = port.get("nodePort", 0), port.get("protocol", "TCP")
            if not number:
                number = next(item for item in self._next_port if (protocol, item) not in self._ports)
                port["nodePort"] = number
            elif self._ports.get((protocol, number), owner) != owner:
                causes.append(statuses.invalid_value(f"spec.ports[{index}].nodePort", number, "provided port is already allocated"))
            elif not NODE_PORTS[0] <= number <= NODE_PORTS[1]:
                text = f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[1]}"
                causes.append(statuses.invalid_value(f"spec.ports[{index}].nodePort", number, text))
            if keep and not causes:
                self._ports[protocol, number] = owner
        return causes

    def release(self, namespace: str, name: str) -> None:
        owner = (namespace, name)
        self._owners = {address: held for address, held in self._owners.items() if held != owner}
        self._ports = {port: held for port, held in self._ports.items() if held != owner}
