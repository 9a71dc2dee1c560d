"""The recorded exchanges of a real control plane, played against the simulated one."""

import asyncio

import aiohttp
import pytest

from delegate.simulator.server import Simulator
from tests.simulator.clients import Client
from tests.simulator.replaying import IN_ORDER, Replay


async def test_answers_every_recorded_request_as_recorded(simulator: Simulator, client: Client) -> None:
    """The fifteen recordings, in their order, find no difference; errors and conflicts not even in their wording."""
    tokens = {"admin": simulator.admin_token, "limited": simulator.limited_token}
    await asyncio.sleep(0)
    async with aiohttp.ClientSession() as session:
        found = []
        for name in IN_ORDER:
            replay = Replay(session, simulator.url, tokens, wording=name in ("errors", "ssa-conflict"))
            found += await replay.play(name)

    assert found == []


@pytest.mark.parametrize(("want", "got"), [({"a": 1}, {"a": 2}), ({"a": 1}, {}), ({}, {"b": 1}), ([1], [1, 2]), ("<uid-1>", None)])
async def test_the_comparison_notices_differences(simulator: Simulator, want: object, got: object) -> None:
    """A replay that found nothing would prove nothing if it could not find this."""
    async with aiohttp.ClientSession() as session:
        replay = Replay(session, simulator.url, {})

        assert replay.differences(want, got, "") != []
