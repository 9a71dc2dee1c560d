"""Progress and releases: sent in batches, in nobody's way, and never the cause of a loss."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from delegate.daemon.connection.progress import ProgressSender
from delegate.daemon.connection.releases import Releaser
from delegate.protocol import routes
from tests.daemon.connection.harness import Link, linked
from tests.daemon.waiting import eventually
from tests.fakes.scripted_manager import Json, problem, raw


@asynccontextmanager
async def reporting_progress() -> AsyncIterator[tuple[Link, ProgressSender]]:
    async with linked(heartbeat_seconds=30.0) as link:
        sender = ProgressSender(link.caller, link.keeper, link.faults)
        running = asyncio.create_task(sender.run())
        yield link, sender
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def releasing() -> AsyncIterator[tuple[Link, Releaser]]:
    async with linked(heartbeat_seconds=30.0) as link:
        releaser = Releaser(link.caller, link.faults)
        running = asyncio.create_task(releaser.run())
        yield link, releaser
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def events(link: Link) -> list[Json]:
    return [event for seen in link.manager.at(routes.EVENTS) for event in seen.body["events"]]


async def test_progress_is_numbered_within_its_attempt() -> None:
    """Each step has the next number of its attempt; steps that come together travel together."""
    async with reporting_progress() as (link, sender):
        for attempt, event in (("a", "resolved"), ("b", "resolved"), ("a", "planned")):
            sender.report(attempt, 1, event, {})
        await eventually(lambda: len(events(link)) == 3)

        assert [(each["attemptId"], each["sequence"], each["event"]) for each in events(link)] == [
            ("a", 1, "resolved"),
            ("b", 1, "resolved"),
            ("a", 2, "planned"),
        ]
        assert len(link.manager.at(routes.EVENTS)) == 1


async def test_progress_that_met_a_fault_comes_again_in_order() -> None:
    """A lost call loses no step."""
    async with reporting_progress() as (link, sender):
        link.manager.on(routes.EVENTS, raw(502, b"bad gateway", Content_Type="text/plain"))
        for number in range(5):
            sender.report("a", 1, f"step-{number}", {})
        await eventually(lambda: len(link.manager.at(routes.EVENTS)) == 2)

        assert [each["sequence"] for each in link.manager.at(routes.EVENTS)[1].body["events"]] == [1, 2, 3, 4, 5]


async def test_progress_beyond_the_bound_is_dropped_and_says_so() -> None:
    """While nobody takes it, the oldest goes; the next step of the attempt tells how many were lost."""
    async with reporting_progress() as (link, sender):
        link.manager.always[routes.EVENTS] = problem(503, "overloaded", Retry_After="1")
        for number in range(5_000):
            sender.report("a", 1, "step", {"number": number})
        assert len(sender._waiting) == 2_000
        del link.manager.always[routes.EVENTS]

        await eventually(lambda: not sender._waiting)
        told = [each for each in events(link) if each["event"] == "events.dropped"]
        assert sum(each["data"]["count"] for each in told) == 3_000


async def test_releases_are_told_until_they_are_heard() -> None:
    """A release survives faults; one that is refused for good holds up no other."""
    async with releasing() as (link, releaser):
        link.manager.on(routes.RELEASE, raw(502, b"", Content_Type="text/plain"), problem(429, "overloaded", Retry_After="0.1"))
        releaser.release("a", 3, "draining", "the delegate stops")
        await asyncio.wait_for(releaser.wait_until_told(), 10.0)

        assert [each.body["attempts"] for each in link.manager.at(routes.RELEASE)][-1] == [
            {"attemptId": "a", "fence": 3, "reason": "draining", "message": "the delegate stops"}
        ]
        link.manager.on(routes.RELEASE, problem(422, "invalid"))
        releaser.release("bad", 1, "busy")
        await asyncio.wait_for(releaser.wait_until_told(), 10.0)
        releaser.release("good", 1, "busy")
        await asyncio.wait_for(releaser.wait_until_told(), 10.0)
        assert link.manager.at(routes.RELEASE)[-1].body["attempts"][0]["attemptId"] == "good"
