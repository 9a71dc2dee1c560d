"""The queue as a state machine: any order of calls, lost answers, silence and restarts, judged by an independent checker.

Every call goes through the store's own group commit on a SQLite file. What the simulated delegates and operators saw, and the
manager's own history, are each checked against the promises; at the end of every run everybody behaves, and all tasks must end.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from delegate.manager.concurrency import LimitKind
from delegate.manager.effects import Effects
from delegate.manager.settings import Limits, Rhythm
from delegate.manager.store.asking import ask
from delegate.manager.store.database import Database
from delegate.manager.store.engines import Engine, SqliteEngine, open_engine
from delegate.manager.store.handouts import give_back
from delegate.manager.store.heartbeats import beat
from delegate.manager.store.limiting import set_limit
from delegate.manager.store.reading import show_task
from delegate.manager.store.results import accept_results
from delegate.manager.store.sessions import enrol, open_session
from delegate.manager.store.submissions import Submission, cancel_task, submit_task
from delegate.manager.store.sweeping import end_what_is_over
from delegate.manager.store.tables import history
from delegate.manager.store.tokens import NewToken, create_token
from delegate.manager.store.transactions import Transaction
from delegate.model.tasks import read_task
from delegate.protocol.control import HeartbeatRequest, HeldAttempt
from delegate.protocol.enrolment import AttemptReport, ClusterName, EnrolRequest, SessionRequest
from delegate.protocol.work import AcquireRequest, LeasedTask, ReleaseItem
from tests.manager.clocks import FakeClock
from tests.manager.databases import empty_sqlite
from tests.manager.delegates import make_result, new_request_id
from tests.manager.history import Checker, Event, from_audit
from tests.manager.postgres import PostgresServer

T = TypeVar("T")
LEASE = 45.0
KEY = b"k" * 32
RHYTHM = Rhythm(lease_seconds=LEASE, heartbeat_seconds=10.0, requeues=3, requeue_base_seconds=1.0, verdict_grace_seconds=20.0)
APPLICATIONS = ("cart", "checkout", "search")
LIMITS = {"environment/prod": 1, "key/db": 1}


MOSTLY = st.sampled_from([True, True, True, False])
SELDOM = st.sampled_from([False, False, False, True])
_STATES = sa.text("SELECT id, state, outcome, stop FROM tasks ORDER BY sequence")


class Process:
    """What one delegate knows: its session, what it runs, and results that it could not be sure were taken."""

    def __init__(self, delegate_id: str, name: str) -> None:
        self.delegate_id = delegate_id
        self.name = name
        self.epoch = 0
        self.held: dict[str, LeasedTask] = {}
        self.last_request = ""
        self.sequence = 0


class Queue(RuleBasedStateMachine):
    """Three delegates, three applications, one cluster."""

    attempts: Bundle[tuple[int, LeasedTask]] = Bundle("attempts")
    tasks: Bundle[str] = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.clock = FakeClock(1_000_000.0)
        self.runner = asyncio.Runner()
        self.engine = self.open_engine()
        self.database = Database(self.engine, clock=self.clock, rhythm=RHYTHM, limits=Limits(), on_commit=self._commit)
        self.writer = self.runner.get_loop().create_task(self.database.run())
        self.processes: list[Process] = []
        self.seen: list[Event] = []
        self.submitted: dict[str, str] = {}
        self.final: dict[str, str] = {}
        self.wishes: set[tuple[str, str]] = set()
        self.finished_effects = 0

    def open_engine(self) -> Engine:
        (Path(self.directory.name) / "queue.db").write_bytes(empty_sqlite())
        return SqliteEngine(Path(self.directory.name) / "queue.db")

    def _commit(self, effects: Effects) -> None:
        self.finished_effects += len(effects.finished)

    def write(self, operation: Callable[[Transaction], T]) -> T:
        return self.runner.run(self.database.write(operation))

    def note(self, kind: str, task: str, attempt: str = "", **more: object) -> None:
        self.seen.append(Event(self.clock.now, kind, task, attempt, **more))  # type: ignore[arg-type]

    @initialize()
    def start(self) -> None:
        """Three delegates enrol and open their sessions."""
        _, secret = self.write(lambda tx: create_token(tx, NewToken(name="t", scopes=("GITOPS",), life_seconds=None), "test"))
        for number in range(3):
            request = EnrolRequest(request_id="e", name=f"d-{number}", instance=f"instance-{number}")
            enrolled = self.write(lambda tx, request=request: enrol(tx, secret, request))  # type: ignore[misc]
            self.processes.append(Process(enrolled.delegate_id, f"d-{number}"))
            self._open(self.processes[-1], ())
        self.write(lambda tx: set_limit(tx, LimitKind.ENVIRONMENT, "prod", 1, "test"))

    def _open(self, process: Process, reports: tuple[AttemptReport, ...]) -> dict[str, str]:
        request = SessionRequest(
            request_id="s",
            delegate_id=process.delegate_id,
            incarnation=new_request_id(),
            capacity=4,
            clusters=(ClusterName(name="in-cluster", uid="uid-1"),),
            attempts=reports,
        )
        opened = self.write(lambda tx: open_session(tx, process.delegate_id, request))
        process.epoch = opened.epoch
        return {decision.attempt_id: decision.verdict for decision in opened.attempts}

    @rule(
        target=tasks,
        application=st.sampled_from(APPLICATIONS),
        priority=st.integers(-1, 1),
        supersedes=st.sampled_from([False, False, False, True]),
        timeout=st.sampled_from(["2m", "15m", "24h"]),
        place=st.sampled_from([("", ""), ("prod", ""), ("", "db"), ("prod", "db")]),
    )
    def submit(self, application: str, priority: int, supersedes: bool, timeout: str, place: tuple[str, str]) -> str:
        """A new task."""
        return self.submit_one(application, priority, supersedes, timeout, place)

    def submit_one(
        self, application: str, priority: int, supersedes: bool = False, timeout: str = "24h", place: tuple[str, str] = ("", "")
    ) -> str:
        """Its id."""
        environment, concurrency_key = place
        document = {
            "kind": "sync",
            "application": application,
            "destination": {"name": "in-cluster"},
            "priority": priority,
            "supersedes": supersedes,
            "timeout": timeout,
            "environment": environment,
            "concurrencyKey": concurrency_key,
        }
        task_id = self.write(lambda tx: submit_task(tx, Submission(task=read_task(document), submitter="somebody")))
        self.submitted[task_id] = application
        rank = self.clock.now - priority * RHYTHM.ageing_seconds
        self.note("submitted", task_id, key=application, rank=rank, limits=(f"environment/{environment}", f"key/{concurrency_key}"))
        self._observe()
        return task_id

    @rule(target=attempts, number=st.integers(0, 2), slots=st.integers(1, 3), answered=MOSTLY, repeated=SELDOM)
    def acquire(self, number: int, slots: int, answered: bool, repeated: bool) -> MultipleResults[tuple[int, LeasedTask]]:
        """A poll; its answer may get lost, and it may be a repetition of the one before."""
        process = self.processes[number]
        if not repeated or not process.last_request:
            process.last_request = new_request_id()
        request = AcquireRequest(
            request_id=process.last_request, epoch=process.epoch, free_slots=slots, wait_seconds=0, running=tuple(process.held)
        )
        asked = self.write(lambda tx: ask(tx, process.delegate_id, request, KEY))
        assert repeated or len(asked.tasks) <= slots
        if not answered:
            return multiple()
        received = []
        for task in asked.tasks:
            if task.attempt_id not in process.held:
                self.note("handed_out", task.task_id, task.attempt_id, fence=task.fence, lease=LEASE)
                process.held[task.attempt_id] = task
                received.append((number, task))
            else:
                self.note("renewed", task.task_id, task.attempt_id, lease=LEASE)
        return multiple(*received)

    @rule(number=st.integers(0, 2), stalled=SELDOM)
    def heartbeat(self, number: int, stalled: bool) -> None:
        """Names everything that is held, and obeys the verdicts."""
        self._beat(self.processes[number], stalled)

    def _beat(self, process: Process, stalled: bool) -> None:
        process.sequence += 1
        request = HeartbeatRequest(
            request_id="h",
            epoch=process.epoch,
            sequence=process.sequence,
            stalled=stalled,
            attempts=tuple(HeldAttempt(attempt_id=task.attempt_id, fence=task.fence) for task in process.held.values()),
        )
        decisions, _ = self.write(lambda tx: beat(tx, process.delegate_id, request))
        for decision in decisions:
            task = process.held[decision.attempt_id]
            if decision.verdict == "lost":
                del process.held[decision.attempt_id]
                self._give_up(task)
            elif not stalled:
                self.note("renewed", task.task_id, task.attempt_id, lease=LEASE)

    def _give_up(self, task: LeasedTask) -> None:
        """The delegate stops, whatever the manager knows of it by now."""
        if task.task_id not in self.final:
            self.note("lost", task.task_id, task.attempt_id)

    @rule(
        held=attempts,
        outcome=st.sampled_from(["succeeded", "failed", "interrupted", "cancelled"]),
        again=st.integers(1, 2),
    )
    def result(self, held: tuple[int, LeasedTask], outcome: str, again: int) -> None:
        """Sends a result, perhaps twice, perhaps long after the attempt was lost."""
        number, task = held
        item = make_result(task, outcome)
        verdicts = []
        for _ in range(again):
            (decision,) = self.write(lambda tx: accept_results(tx, [msgspec.structs.replace(item, attempt_token=item.attempt_token)], KEY))
            verdicts.append(decision.verdict)
        if verdicts[0] == "accepted":
            assert verdicts[1:] in ([], ["duplicate"])
            self.note("result_accepted", task.task_id, task.attempt_id, outcome=outcome)
        elif task.attempt_id in self.processes[number].held:
            self._give_up(task)
        self.processes[number].held.pop(task.attempt_id, None)
        self._observe()

    @rule(held=consumes(attempts))
    def release(self, held: tuple[int, LeasedTask]) -> None:
        """Gives an attempt back that did not begin."""
        number, task = held
        process = self.processes[number]
        item = ReleaseItem(attempt_id=task.attempt_id, fence=task.fence, reason="draining")
        ((_, verdict, _),) = self.write(lambda tx: give_back(tx, process.delegate_id, [item]))
        if process.held.pop(task.attempt_id, None) is not None:
            if verdict == "accepted":
                self.note("released", task.task_id, task.attempt_id)
            else:
                self._give_up(task)
        self._observe()

    @rule(task_id=tasks)
    def cancel(self, task_id: str) -> None:
        """Somebody doesn't want it any more."""
        effect = self.write(lambda tx: cancel_task(tx, task_id, "somebody", ""))
        assert effect != "already_finished" or task_id in self.final
        self._observe()
        assert effect != "cancelled" or self.final[task_id] == "cancelled"

    @rule(number=st.integers(0, 2), finished=st.booleans())
    def restart(self, number: int, finished: bool) -> None:
        """The process is killed; its journal knows what it held, and perhaps that it had finished."""
        process = self.processes[number]
        held, process.held = process.held, {}
        state = "finished" if finished else "lost"
        reports = tuple(
            AttemptReport(attempt_id=task.attempt_id, task_id=task.task_id, fence=task.fence, state=state) for task in held.values()
        )
        verdicts = self._open(process, reports)
        for task in held.values():
            if finished and verdicts[task.attempt_id] == "send":
                (decision,) = self.write(lambda tx, task=task: accept_results(tx, [make_result(task)], KEY))  # type: ignore[misc]
                if decision.verdict == "accepted":
                    self.note("result_accepted", task.task_id, task.attempt_id, outcome="succeeded")
                    continue
                assert decision.verdict in ("lease_lost", "duplicate", "conflict")
            self._give_up(task)
        self._observe()

    @rule(seconds=st.sampled_from([0.5, 5.0, 11.0, 46.0, 130.0]))
    def wait(self, seconds: float) -> None:
        """Time goes on, and the sweep with it. Every queued task says why, and no other does."""
        self.clock.advance(seconds)
        self._sweep()
        for task_id in list(self.submitted)[-2:]:
            shown = self.write(lambda tx, task_id=task_id: show_task(tx, task_id))  # type: ignore[misc]
            assert bool(shown.why_queued) == (shown.task.state == "queued")

    @rule(target=attempts, number=st.integers(0, 2), swept=MOSTLY, urgent=st.booleans(), back=st.booleans())
    def cut_off(self, number: int, swept: bool, urgent: bool, back: bool) -> MultipleResults[tuple[int, LeasedTask]]:
        """One delegate is silent for longer than a lease; another one takes what it gets, perhaps something more urgent."""
        others = [each for each in range(3) if each != number]
        for _ in range(2):
            for each in others:
                self._beat(self.processes[each], stalled=False)
            self.clock.advance(23.5)
        if swept:
            self._sweep()
            self.clock.advance(9.0)
        if urgent and self.processes[number].held:
            held = next(iter(self.processes[number].held.values()))
            self.submit_one(held.application, priority=100)
        taken = self._poll(self.processes[others[0]])
        if back:
            self._beat(self.processes[number], stalled=False)
        self._observe()
        return multiple(*((others[0], task) for task in taken))

    def _sweep(self) -> None:
        self.write(lambda tx: end_what_is_over(tx, leases=True))
        self._observe()

    def _observe(self) -> None:
        """Notes who is to be stopped and what became final, and that a final state stays what it is."""
        for row in self.write(lambda tx: tx.rows(_STATES)):
            wish = (row.id, row.stop)
            if row.stop and wish not in self.wishes:
                self.wishes.add(wish)
                self.note("stop_requested", row.id, outcome=row.stop)
            if row.state == "finished":
                if row.id not in self.final:
                    self._note_final(row.id, row.outcome)
                assert self.final[row.id] == row.outcome

    def _note_final(self, task_id: str, outcome: str) -> None:
        self.final[task_id] = outcome
        self.note("finished", task_id, outcome=outcome)

    @invariant()
    def at_most_one_head_and_one_holder(self) -> None:
        """Of every application at most one task runs, and at most one is eligible, and then none runs."""
        counts = self.write(
            lambda tx: tx.rows(
                sa.text(
                    "SELECT lock_key, count(*) FILTER (WHERE state = 'running') AS running, count(*) FILTER (WHERE eligible) AS eligible,"
                    " count(*) FILTER (WHERE state = 'queued') AS queued FROM tasks GROUP BY lock_key"
                )
            )
        )
        for row in counts:
            assert row.running <= 1, row
            assert row.eligible == (1 if row.queued and not row.running else 0), row

    def teardown(self) -> None:
        try:
            if self.processes:
                self._behave_until_all_is_done()
                self._judge()
        finally:
            self.writer.cancel()
            self.runner.run(self.engine.close())
            self.runner.close()
            self.directory.cleanup()

    def _behave_until_all_is_done(self) -> None:
        """Every delegate finishes what it holds and takes what there is."""
        for _ in range(200):
            for process in self.processes:
                self._beat(process, stalled=False)
                for task in list(process.held.values()):
                    del process.held[task.attempt_id]
                    (decision,) = self.write(lambda tx, task=task: accept_results(tx, [make_result(task)], KEY))  # type: ignore[misc]
                    if decision.verdict == "accepted":
                        self.note("result_accepted", task.task_id, task.attempt_id, outcome="succeeded")
                    else:
                        self._give_up(task)
                    self._observe()
                self._poll(process)
            if len(self.final) == len(self.submitted):
                return
            self.clock.advance(11.0)
            self._sweep()

    def _poll(self, process: Process) -> list[LeasedTask]:
        """A poll of a delegate that behaves."""
        request = AcquireRequest(
            request_id=new_request_id(), epoch=process.epoch, free_slots=4, wait_seconds=0, running=tuple(process.held)
        )
        tasks = self.write(lambda tx: ask(tx, process.delegate_id, request, KEY)).tasks
        for task in tasks:
            self.note("handed_out", task.task_id, task.attempt_id, fence=task.fence, lease=LEASE)
            process.held[task.attempt_id] = task
        return tasks

    def _judge(self) -> None:
        observed = Checker(most_losses=0, in_order=False, limits=LIMITS).read(self.seen).expect_all_final().violations
        assert not observed, observed
        rows = self.write(lambda tx: tx.rows(sa.select(history).where(history.c.task_id != "").order_by(history.c.id)))
        audit = [row._asdict() | {"detail": msgspec.json.decode(row.detail)} for row in rows]
        told = Checker(most_losses=RHYTHM.requeues + 1, limits=LIMITS).read(from_audit(audit)).expect_all_final().violations
        assert not told, told
        assert {row["task_id"]: row["detail"]["outcome"] for row in audit if row["operation"] == "finished"} == self.final
        assert self.finished_effects == len(self.final)


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.timeout(120)
def test_the_same_queue_on_postgresql(postgres: PostgresServer) -> None:
    """The same rules, promises and checker on the other dialect."""

    class PostgresQueue(Queue):
        def open_engine(self) -> Engine:
            return open_engine(postgres.create_database())

    run_state_machine_as_test(PostgresQueue, settings=settings(max_examples=8, stateful_step_count=25, deadline=None))
