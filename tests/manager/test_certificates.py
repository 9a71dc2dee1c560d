"""Certificates of delegates at the manager: given with enrolment, shown with every call, renewed, replaced, revoked."""

import asyncio
import datetime as dt
import ssl
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import aiohttp
import pytest
import trustme

from delegate.manager.authorities import CertificateRules
from delegate.manager.service import Manager
from delegate.manager.settings import Rhythm
from delegate.protocol.pki.bundles import read_bundle
from delegate.protocol.pki.certificates import read_certificates
from delegate.protocol.pki.issuing import make_authority
from delegate.protocol.pki.pairs import Pair, read_pair
from delegate.protocol.pki.proofs import prove
from delegate.protocol.pki.requests import read_request
from tests.manager.clocks import FakeClock
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError
from tests.manager.operators import Operator
from tests.manager.presenting import Asked, session_with, showing, trusting
from tests.manager.waiting import eventually

RHYTHM = Rhythm(poll_seconds=5.0, grace_seconds=0.0, sweep_seconds=0.05)
RULES = CertificateRules(overlap=0.5)


@pytest.fixture
async def manager(tmp_path: Path, database_url: str) -> AsyncIterator[Manager]:
    """One that signs its own certificate, on the machine's clock."""
    async with Manager(
        state_dir=tmp_path / "state", database_url=database_url, rhythm=RHYTHM, tls_self=True, certificates=RULES
    ) as manager:
        yield manager


@pytest.fixture
async def http(manager: Manager) -> AsyncIterator[aiohttp.ClientSession]:
    """Connections that show nothing."""
    async with session_with(trusting(manager)) as session:
        yield session


async def refusal(call: Awaitable[object]) -> str:
    try:
        await call
    except RefusedCallError as error:
        return f"{error.problem.status} {error.problem.code}: {error.problem.detail}"
    return "accepted"


async def enrolled(delegate: FakeDelegate, token: str, life: float | None = None) -> Pair:
    asked = Asked()
    return asked.pair((await delegate.enrol(token, asked.csr, life)).certificate)


@pytest.fixture
def fresh(manager: Manager, http: aiohttp.ClientSession) -> FakeDelegate:
    return FakeDelegate(Caller(http, manager.url))


async def test_enrolment_gives_a_certificate_in_the_delegate_s_name(fresh: FakeDelegate, token: str) -> None:
    """For the key of the request, with the authority that signed it, and the life that was asked for."""
    asked = Asked()
    answer = await fresh.enrol(token, asked.csr, 3600.0)
    pair = asked.pair(answer.certificate)

    assert pair.certificate.names == (f"urn:delegate:{fresh.delegate_id}",)
    assert abs(pair.certificate.life.total_seconds() - 3600 - 30) <= 2
    assert read_bundle(answer.authorities).certificates[0].subject == pair.certificate.issuer


async def test_the_same_request_gets_the_same_certificate(fresh: FakeDelegate, token: str) -> None:
    """Case 05: an answer that got lost is asked for again, at both routes; another request gets another one."""
    asked = Asked()
    first = await fresh.enrol(token, asked.csr)
    again = await fresh.enrol(token, asked.csr)
    renewed = await fresh.renew(asked.csr)

    assert first.certificate == again.certificate == renewed.certificate
    assert (await fresh.renew(Asked().csr)).certificate != first.certificate


async def test_life_is_bounded(tmp_path: Path) -> None:
    """A delegate gets no more than the manager allows, and no less than makes sense."""
    rules = CertificateRules(longest_life=600.0)
    async with Manager(state_dir=tmp_path, certificates=rules) as manager, aiohttp.ClientSession() as session:
        token = await Operator(session, manager.url, manager.admin_token).create_token()
        delegate = FakeDelegate(Caller(session, manager.url))
        lives = [(await enrolled(delegate, token, wanted)).certificate.life.total_seconds() for wanted in (1e9, None, 0.0, -5.0)]

    assert [600 <= life <= 632 for life in lives[:2]] == [True, True]
    assert all(2 <= life <= 4 for life in lives[2:])


async def test_the_manager_sees_which_certificate_is_shown(manager: Manager, fresh: FakeDelegate, token: str, tmp_path: Path) -> None:
    """`ping` says so, which proves a handshake end to end."""
    pair = await enrolled(fresh, token)
    seen = []
    for shown in (None, pair):
        async with (
            session_with(trusting(manager, shown, tmp_path)) as session,
            session.get(manager.url + "/api/delegate/v1/ping") as response,
        ):
            seen.append((await response.json())["clientCertificate"])

    assert seen == ["", pair.certificate.serial]


async def test_from_the_first_time_on_every_call_shows_it(manager: Manager, fresh: FakeDelegate, token: str, tmp_path: Path) -> None:
    """Until it was shown, a call may come without: its answer may have got lost. Then the session token alone is worth nothing."""
    pair = await enrolled(fresh, token)
    await fresh.open()
    async with showing(manager, fresh, pair, tmp_path) as delegate:
        await delegate.beat()
        assert (await refusal(fresh.beat())).startswith("403 certificate_refused: the calls of this delegate come with its certificate")
        assert (await refusal(fresh.renew(Asked().csr))).startswith("403 certificate_refused")
        assert await delegate.acquire() == []


async def test_a_certificate_of_another_delegate_is_refused(
    manager: Manager, http: aiohttp.ClientSession, fresh: FakeDelegate, token: str, tmp_path: Path
) -> None:
    """Whoever has a session token of one and a certificate of another."""
    await enrolled(fresh, token)
    other = FakeDelegate(Caller(http, manager.url), "d-2")
    pair = await enrolled(other, token)
    async with showing(manager, fresh, pair, tmp_path) as thief:
        assert "is another delegate's" in await refusal(thief.open())


async def test_old_and_new_are_good_until_the_new_one_is_used(manager: Manager, fresh: FakeDelegate, token: str, tmp_path: Path) -> None:
    """Case 05: a delegate that never gets its new certificate goes on with the old one; one that uses the new one ends the old one soon."""
    first = await enrolled(fresh, token)
    await fresh.open()
    async with showing(manager, fresh, first, tmp_path) as old:
        await old.beat()
        asked = Asked()
        lost = await old.renew(asked.csr)
        await old.beat()
        assert (await old.renew(asked.csr)).certificate == lost.certificate

        async with showing(manager, old, asked.pair(lost.certificate), tmp_path) as new:
            await new.beat()
            assert await refusal(old.beat()) == "accepted"  # connections drain
            await asyncio.sleep(RULES.overlap)
            manager._services.authenticator.forget_all()
            assert "was replaced by a newer one" in await refusal(old.beat())
            await new.beat()


async def test_states_are_shown_to_operators(manager: Manager, operator: Operator, fresh: FakeDelegate, token: str, tmp_path: Path) -> None:
    """issued, current, replaced, revoked."""
    first = await enrolled(fresh, token)

    async def states() -> list[str]:
        items = (await operator.call("GET", f"/api/v1/certificates?delegate={fresh.delegate_id}"))["items"]
        return [each["state"] for each in reversed(items)]

    assert await states() == ["issued"]
    async with showing(manager, fresh, first, tmp_path) as old:
        await old.open()
        assert await states() == ["current"]
        asked = Asked()
        second = asked.pair((await old.renew(asked.csr)).certificate)
    async with showing(manager, fresh, second, tmp_path) as new:
        await new.open()
        assert await states() == ["replaced", "current"]
    await operator.call("POST", "/api/v1/revocations", {"key": second.certificate.key_fingerprint})
    assert await states() == ["replaced", "revoked"]


@pytest.mark.parametrize("by", ["serial", "key", "certificate", "delegate"])
async def test_revocation_cuts_open_polls(
    *, manager: Manager, operator: Operator, fresh: FakeDelegate, token: str, tmp_path: Path, by: str
) -> None:
    """At once, in both lanes; and no later call gets through with it."""
    pair = await enrolled(fresh, token)
    certificate = pair.certificate
    async with showing(manager, fresh, pair, tmp_path) as delegate, asyncio.TaskGroup() as group:
        await delegate.open()
        poll = group.create_task(refusal(delegate.acquire(1, wait_seconds=5.0)))
        commands = group.create_task(refusal(delegate.commands(wait_seconds=5.0)))
        await eventually(lambda: manager.open_polls == 1 and manager.open_command_polls == 1)
        began = time.monotonic()
        if by == "delegate":
            await operator.call("POST", f"/api/v1/delegates/{delegate.delegate_id}/revoke")
        else:
            value = {"serial": certificate.serial, "key": certificate.key_fingerprint, "certificate": certificate.fingerprint}[by]
            shown = await operator.call("POST", "/api/v1/revocations", {by: value.upper(), "reason": "laptop stolen"})
            assert (shown["kind"], shown["reason"]) == (by, "laptop stolen")
        answers = [await poll, await commands, await refusal(delegate.beat()), await refusal(delegate.renew(Asked().csr))]

        assert time.monotonic() - began < 4.0
        code = "delegate_revoked" if by == "delegate" else "certificate_refused"
        assert [each.split(":")[0] for each in answers] == [f"403 {code}"] * 4
        if by != "delegate":
            assert all("was revoked: laptop stolen" in each for each in answers)
            assert (await refusal(delegate.refresh())).startswith("403 certificate_refused")


async def test_a_revoked_key_gets_no_new_certificate(
    operator: Operator, fresh: FakeDelegate, token: str, manager: Manager, tmp_path: Path
) -> None:
    """The delegate has to make another key; with that it may enrol again."""
    asked = Asked()
    await fresh.enrol(token, asked.csr)
    await operator.call("POST", "/api/v1/revocations", {"key": asked.key.fingerprint})

    assert "the key was revoked" in await refusal(fresh.enrol(token, asked.csr))
    async with showing(manager, fresh, await enrolled(fresh, token), tmp_path) as again:
        await again.open()


@pytest.mark.parametrize("body", [{}, {"serial": "12", "key": "ab"}, {"serial": "xyz"}, {"key": "0" * 65}, {"serial": "0"}], ids=",".join)
async def test_what_can_t_be_revoked_is_refused(operator: Operator, body: dict[str, str]) -> None:
    """With words, and nothing is written."""
    assert (await refusal(operator.call("POST", "/api/v1/revocations", body))).startswith("422 invalid")
    assert (await operator.call("GET", "/api/v1/revocations"))["items"] == []


async def test_an_ended_certificate_breaks_the_handshake_and_proves_a_renewal(
    manager: Manager, fresh: FakeDelegate, token: str, tmp_path: Path
) -> None:
    """Case 04: what slept through the end comes without certificate, with the proof of the old key, and gets a new one."""
    asked = Asked()
    first = asked.pair((await fresh.enrol(token, asked.csr, 2.0)).certificate)
    async with showing(manager, fresh, first, tmp_path) as delegate:
        await delegate.open()
    await asyncio.sleep(first.certificate.not_after.timestamp() - time.time() + 0.1)
    async with showing(manager, fresh, first, tmp_path) as late:
        with pytest.raises(aiohttp.ClientError):
            await late.beat()

    wanted = Asked()
    proof = prove(first.key, read_request(wanted.csr).digest)
    stranger = prove(wanted.key, read_request(wanted.csr).digest)
    old = first.certificate.to_pem()
    assert (await refusal(fresh.renew(wanted.csr, certificate=old, proof=stranger))).startswith("403 certificate_refused")
    assert (await refusal(fresh.renew(Asked().csr, certificate=old, proof=proof))).startswith("403 certificate_refused")
    renewed = wanted.pair((await fresh.renew(wanted.csr, certificate=old, proof=proof)).certificate)
    async with showing(manager, fresh, renewed, tmp_path) as delegate:
        await delegate.open()


async def test_a_proof_is_worth_nothing_after_the_grace(tmp_path: Path) -> None:
    """Nor after revocation. Where TLS ends elsewhere, a session token renews by itself."""
    clock = FakeClock()
    async with Manager(state_dir=tmp_path, rhythm=RHYTHM, clock=clock) as manager, aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        delegate = FakeDelegate(Caller(session, manager.url))
        token = await operator.create_token(expiresIn="8760h")
        first = await enrolled(delegate, token, 3600.0)

        async def renew() -> str:
            await delegate.refresh()
            wanted = Asked()
            proof = prove(first.key, read_request(wanted.csr).digest)
            return await refusal(delegate.renew(wanted.csr, certificate=first.certificate.to_pem(), proof=proof))

        clock.advance(3600 + 6.9 * 86400)
        assert await renew() == "accepted"
        clock.advance(0.2 * 86400)
        assert "ended more than 7 days ago" in await renew()
        assert await refusal(delegate.renew(Asked().csr)) == "accepted"
        await operator.call("POST", "/api/v1/revocations", {"serial": first.certificate.serial})
        assert "was revoked" in await renew()


async def test_an_outside_issuer_s_certificates_are_taken_where_that_is_set(tmp_path: Path) -> None:
    """Several replicas may share one; it is refused when it was revoked; without the setting the handshake fails."""
    outside = trustme.CA()
    leaf = outside.issue_cert("delegates.example")
    pair = read_pair(leaf.private_key_pem.bytes(), b"".join(each.bytes() for each in leaf.cert_chain_pems))
    outside.cert_pem.write_to_path(str(tmp_path / "outside.pem"))
    for file in (tmp_path / "outside.pem", None):
        state = tmp_path / f"state-{file is None}"
        async with (
            Manager(state_dir=state, rhythm=RHYTHM, tls_self=True, client_authorities=file) as manager,
            session_with(trusting(manager)) as session,
        ):
            operator = Operator(session, manager.url, manager.admin_token)
            token = await operator.create_token()
            delegates = [FakeDelegate(Caller(session, manager.url), name) for name in ("d-1", "d-2")]
            for each in delegates:
                await each.enrol(token)
            async with showing(manager, delegates[0], pair, tmp_path) as first, showing(manager, delegates[1], pair, tmp_path) as second:
                if file is None:
                    with pytest.raises(aiohttp.ClientError):
                        await first.open()
                    continue
                await first.open()
                await second.open()
                assert (await refusal(delegates[0].beat())).startswith("403 certificate_refused")
                await operator.call("POST", "/api/v1/revocations", {"serial": pair.certificate.serial})
                assert "was revoked" in await refusal(first.beat())
                assert "was revoked" in await refusal(second.acquire())


async def test_a_foreign_certificate_can_t_speak_for_a_delegate(tmp_path: Path) -> None:
    """An outside authority that names one of our delegates is not believed in that."""
    moment = dt.datetime.now(dt.UTC)
    outside = make_authority("outside", begins=moment, ends=moment + dt.timedelta(days=1))
    (tmp_path / "outside.pem").write_text(outside.certificate.to_pem())
    async with (
        Manager(state_dir=tmp_path / "state", rhythm=RHYTHM, tls_self=True, client_authorities=tmp_path / "outside.pem") as manager,
        session_with(trusting(manager)) as session,
    ):
        token = await Operator(session, manager.url, manager.admin_token).create_token()
        delegate = FakeDelegate(Caller(session, manager.url))
        await delegate.enrol(token)
        asked = Asked()
        forged = outside.issue_for_delegate(
            read_request(asked.csr), delegate.delegate_id, begins=moment, ends=moment + dt.timedelta(hours=1)
        )
        async with showing(manager, delegate, asked.pair(forged.to_pem()), tmp_path) as liar:
            assert "names another delegate" in await refusal(liar.open())


async def test_a_restart_keeps_authority_and_bindings(tmp_path: Path) -> None:
    """Certificates of before are good, and calls without are not."""
    async with Manager(state_dir=tmp_path / "state", rhythm=RHYTHM, tls_self=True) as manager, session_with(trusting(manager)) as session:
        token = await Operator(session, manager.url, manager.admin_token).create_token()
        delegate = FakeDelegate(Caller(session, manager.url))
        pair = await enrolled(delegate, token)
        async with showing(manager, delegate, pair, tmp_path) as shown:
            await shown.open()
        authority = manager._authority.bundle()
    async with Manager(state_dir=tmp_path / "state", rhythm=RHYTHM, tls_self=True) as manager, session_with(trusting(manager)) as session:
        assert manager._authority.bundle() == authority
        async with showing(manager, delegate, pair, tmp_path) as shown, showing(manager, delegate, None, tmp_path) as bare:
            await shown.open()
            assert (await refusal(bare.beat())).startswith("403 certificate_refused")


async def test_the_next_authority_is_believed_before_it_signs(
    manager: Manager, operator: Operator, fresh: FakeDelegate, token: str, tmp_path: Path
) -> None:
    """A change in advance: the bundle has both, then the next one signs, and certificates of the first one are still good."""
    first_authority = read_certificates((tmp_path / "state" / "authorities.pem").read_text())[0]
    first = await enrolled(fresh, token)
    shown = await operator.call("POST", "/api/v1/authorities", {"signsAfter": "1h"})
    assert [each["state"] for each in shown["items"]] == ["signing", "announced"]

    asked = Asked()
    told = await fresh.renew(asked.csr)
    assert [each.fingerprint for each in read_bundle(told.authorities).certificates] == [each["fingerprint"] for each in shown["items"]]
    assert asked.pair(told.certificate).certificate.issuer == first_authority.subject

    shown = await operator.call("POST", "/api/v1/authorities", {"signsAfter": "0s"})
    assert [each["state"] for each in shown["items"]] == ["earlier", "signing", "announced"]
    wanted = Asked()
    answer = await fresh.renew(wanted.csr)
    second = wanted.pair(answer.certificate)
    async with showing(manager, fresh, first, tmp_path) as old, showing(manager, fresh, second, tmp_path) as new:
        await old.open()
        await new.open()


async def test_operators_need_no_certificate(manager: Manager, operator: Operator) -> None:
    """It is asked for, not demanded."""
    assert (await operator.call("GET", "/api/v1/tasks"))["items"] == []


async def test_the_manager_s_own_certificate_has_its_names(tmp_path: Path) -> None:
    """Those that were set, and the machine's; a name of another is not believed."""
    async with Manager(state_dir=tmp_path, listen="127.0.0.1:0", tls_self=True, tls_names=("manager.example",)) as manager:
        port = int(manager.url.rpartition(":")[2])
        for name, good in (("manager.example", True), ("localhost", True), ("127.0.0.1", True), ("other.example", False)):
            handshake = asyncio.open_connection("127.0.0.1", port, ssl=trusting(manager), server_hostname=name)
            if good:
                _, writer = await handshake
                writer.close()
                await writer.wait_closed()
            else:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await handshake


async def test_files_of_a_certificate_are_read_again_when_they_change(tmp_path: Path) -> None:
    """Somebody renews them behind the manager; half of a change is not taken."""
    first, second = trustme.CA(), trustme.CA()
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(authority: trustme.CA, *, whole: bool = True) -> None:
        leaf = authority.issue_cert("127.0.0.1")
        chain.write_bytes(leaf.cert_chain_pems[0].bytes())
        if whole:
            key.write_bytes(leaf.private_key_pem.bytes())

    async def served_by(manager: Manager, authority: trustme.CA) -> bool:
        context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        try:
            async with aiohttp.ClientSession() as session, session.get(manager.url + "/healthz", ssl=context) as response:
                return response.status == 200
        except aiohttp.ClientConnectorCertificateError:
            return False

    write(first)
    async with Manager(state_dir=tmp_path / "state", tls_files=(chain, key)) as manager:
        tls = manager._tls
        assert tls is not None
        write(second, whole=False)
        tls.refresh()
        assert await served_by(manager, first)
        write(second)
        tls.refresh()
        assert (await served_by(manager, first), await served_by(manager, second)) == (False, True)
