"""The network between one delegate and its manager: mostly calm, sometimes bad, sometimes gone."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.fakes.fault_proxy import Fault, FaultProxy, Point, Rule, fault_proxy

_SPELLS = (
    (Fault.CUT, Point.BEFORE),
    (Fault.CUT, Point.AFTER),
    (Fault.RESET, Point.AFTER),
    (Fault.CUT, Point.MIDDLE),
    (Fault.DELAY, Point.BEFORE),
    (Fault.DELAY, Point.AFTER),
    (Fault.DUPLICATE, Point.BEFORE),
    (Fault.DUPLICATE, Point.AFTER),
    (Fault.GATEWAY_TIMEOUT, Point.BEFORE),
    (Fault.GATEWAY_TIMEOUT, Point.AFTER),
    (Fault.HTML, Point.AFTER),
    (Fault.TRICKLE, Point.AFTER),
    (Fault.FREEZE, Point.AFTER),
)


class Weather:
    """`rough` is how many of the calls meet a fault."""

    def __init__(self, proxy: FaultProxy, dice: random.Random) -> None:
        self.proxy = proxy
        self.rough = 0.0
        self._dice = dice

    async def run(self) -> None:
        """Keeps as many faults in wait as the weather is rough."""
        while True:
            await asyncio.sleep(0.1)
            self.proxy.passed.clear()
            live = [rule for rule in self.proxy.rules if rule.count > 0]
            self.proxy.rules[:] = live
            if self._dice.random() < self.rough and len(live) < 3:
                fault, point = self._dice.choice(_SPELLS)
                self.proxy.rules.append(Rule(fault, point, lambda path: True, 1, self._dice.uniform(0.05, 1.5), 40))

    def cut_off(self) -> None:
        self.proxy.partition(self._dice.choice([Fault.CUT, Fault.FREEZE]))

    def clear_up(self) -> None:
        self.rough = 0.0
        self.proxy.rules.clear()
        self.proxy.heal()


@asynccontextmanager
async def weather(manager_url: str, dice: random.Random) -> AsyncIterator[Weather]:
    async with fault_proxy(manager_url) as proxy:
        made = Weather(proxy, dice)
        running = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.wait([running])
