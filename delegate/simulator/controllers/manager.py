"""Runs the controllers (stub)."""
from delegate.simulator.registry import Registry


class ControllerManager:
    def __init__(self, registry: Registry, *, speed: float = 1.0) -> None:
        self.registry = registry

    async def start(self) -> None: ...

    async def stop(self) -> None: ...
