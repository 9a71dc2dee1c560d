"""A certificate is replaced while everything is under way: what began on the old connections ends there, and once."""

import asyncio
import contextlib
import dataclasses
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import trustme

from delegate.daemon.connection.transport import Limits
from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol.pki.certificates import read_certificates
from tests.daemon.harness import QUICK_RULES, Json, Operator, TestEngine, result_of, running_daemon
from tests.daemon.secured import faults, metric, rotations, secured_manager, secured_settings, serial_in_use
from tests.daemon.waiting import eventually

PIECE = 8 * 1024


@asynccontextmanager
async def slow_way(url: str, bytes_a_second: float) -> AsyncIterator[str]:
    """The same address by another port, through which what is sent up passes no faster than that. TLS goes through unseen."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    relays: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(PIECE):
                writer.write(data)
                await writer.drain()
                if rate and len(data) > 2048:  # what is small is no upload
                    await asyncio.sleep(len(data) / rate)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        relays.add(task)
        up_reader, up_writer = await asyncio.open_connection(host, port)
        writers.extend((writer, up_writer))
        await asyncio.gather(pump(reader, up_writer, bytes_a_second), pump(up_reader, writer, 0.0))
        relays.discard(task)

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for each in writers:
            each.transport.abort()
        if relays:
            await asyncio.wait(relays)


async def events_of(operator: Operator, task: str) -> list[Json]:
    items: list[Json] = (await operator.ask("GET", f"/tasks/{task}/events"))["items"]
    return items


async def test_tasks_an_upload_and_heartbeats_outlive_five_rotations(tmp_path: Path) -> None:
    """Case 07: fifty tasks that report, and a large result on a slow way; each ends once, with each event once, and no call fails."""
    go_on = asyncio.Event()
    steps = 6

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        if task.application == "large":
            return result_of(task, context, message="x" * 500_000)
        for number in range(steps):
            context.report("step", {"number": number})
            await asyncio.sleep(0.3)
        await go_on.wait()
        return result_of(task, context)

    async with secured_manager(tmp_path) as operator, slow_way(operator.manager.url, 200_000.0) as url:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_MANAGER_URL=url, DELEGATE_TASK_CAPACITY="60")
        rules = dataclasses.replace(QUICK_RULES, limits=Limits(connect=10.0, stall=20.0, slack=10.0))
        async with running_daemon(settings, TestEngine(work), rules=rules) as running:
            await running.registered()
            rotator = running.daemon._certificates.rotator
            await rotator.rotate()
            tasks = [await operator.submit(f"shop-{number}") for number in range(50)]
            await eventually(lambda: len(running.engine.began) == 50)
            large = await operator.submit("large")
            await eventually(lambda: running.daemon._outbox.entries == 1)
            for _ in range(5):
                await rotator.rotate()
                await asyncio.sleep(0.3)
            shown = await operator.finished(large)
            go_on.set()

            assert len(shown["result"]["message"]) == 500_000
            assert len(shown["attempts"]) == 1
            for task in tasks:
                shown = await operator.finished(task)
                assert [attempt["state"] for attempt in shown["attempts"]] == ["finished"]
            numbers = [each["data"]["number"] for each in await events_of(operator, tasks[0]) if each["event"] == "step"]
            assert numbers == list(range(steps))
            assert faults(running.daemon) == 0
            assert rotations(running.daemon, "rotated") == 6
            serial = serial_in_use(running.daemon)
            await eventually_shown(operator, serial)
            await eventually(lambda: not running.daemon._lanes._transport._draining)
            gc.collect()
            assert len(running.daemon._certificates._contexts._made) <= 3


async def eventually_shown(operator: Operator, serial: str) -> None:
    """The manager sees the newest certificate, and none before it is current any more."""
    async with asyncio.timeout(20):
        while True:
            items = (await operator.ask("GET", "/certificates"))["items"]
            if [each["serial"] for each in items if each["state"] == "current"][:1] == [serial]:
                return
            await asyncio.sleep(0.05)


async def test_a_writer_with_a_gap_between_key_and_certificate_breaks_no_handshake(tmp_path: Path) -> None:
    """Case 06: an outside writer replaces one file after the other, again and again, and dies in between; work goes on all the time."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "outside.pem"))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    leaves = [authority.issue_cert("delegates.example") for _ in range(12)]

    def write(number: int, name: str) -> None:
        leaf = leaves[number]
        content = leaf.private_key_pem.bytes() if name == "tls.key" else leaf.cert_chain_pems[0].bytes()
        (mounted / f"{name}.new").write_bytes(content)
        (mounted / f"{name}.new").rename(mounted / name)

    def serial_of(number: int) -> str:
        return read_certificates(leaves[number].cert_chain_pems[0].bytes())[0].serial

    write(0, "tls.key")
    write(0, "tls.crt")
    async with secured_manager(tmp_path, client_authorities=tmp_path / "outside.pem") as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_CERT_DIR=str(mounted))
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            rotator, done = running.daemon._certificates.rotator, asyncio.Event()

            async def keep_looking() -> None:
                while not done.is_set():
                    rotator.wake()
                    await asyncio.sleep(0.01)

            async def keep_working() -> None:
                while not done.is_set():
                    shown = await operator.finished(await operator.submit("shop"))
                    assert shown["task"]["outcome"] == "succeeded"

            async with asyncio.TaskGroup() as group:
                group.create_task(keep_looking())
                group.create_task(keep_working())
                for number in range(1, 12):
                    rejected = metric(running.daemon, "harness_delegate_certificate_rotations_total", outcome="rejected")
                    before = serial_in_use(running.daemon)
                    write(number, "tls.key")
                    await eventually(lambda rejected=rejected: rotations(running.daemon, "rejected") > rejected)  # type: ignore[misc]
                    assert serial_in_use(running.daemon) == before
                    if number == 11:  # the writer is gone for good
                        break
                    write(number, "tls.crt")
                    await eventually(lambda number=number: serial_in_use(running.daemon) == serial_of(number))  # type: ignore[misc]
                done.set()
            assert faults(running.daemon) == 0
        async with running_daemon(settings, TestEngine()) as running:  # a start between the two files
            await running.registered()
            assert serial_in_use(running.daemon) == serial_of(10)
            shown = await operator.finished(await operator.submit("shop"))
            assert shown["task"]["outcome"] == "succeeded"
            write(11, "tls.crt")
            running.daemon._certificates.rotator.wake()
            await eventually(lambda: serial_in_use(running.daemon) == serial_of(11))
