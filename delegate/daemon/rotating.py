"""One rotation beside the daemon, or instead of it: for people, and for what is broken at night.

No session is opened: a daemon that runs goes on with its own, and takes the new certificate over.
"""

import asyncio
import os

import structlog

from delegate.daemon.certificates import Certificates
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Credentials, Introduction, SessionHooks
from delegate.daemon.connection.transport import Transport
from delegate.daemon.identity.errors import IdentityError, NotEnrolledError, RenewalRefusedError, WrongUserError
from delegate.daemon.identity.generations import Generation
from delegate.daemon.identity.outside import OutsideDirectory
from delegate.daemon.identity.store import Identity, IdentityStore
from delegate.daemon.identity.tokens import is_account_token, mark_of
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.protocol.enrolment import BuildInfo

log = structlog.get_logger(__name__)


async def rotate_now(settings: DelegateSettings) -> Generation:
    """A new certificate for the delegate in the state directory, tried and switched to.

    By the old one, or its proof; where the manager refuses that, by enrolling again. Raises NotEnrolledError where there is no delegate,
    or another DelegateError; then the old certificate stays in use.
    """
    store = IdentityStore(settings.identity.state_dir)
    identity = store.look()
    if identity is None or not identity.enrolled:
        raise NotEnrolledError(
            f"no delegate has enrolled with the state directory {settings.identity.state_dir}",
            hint="`delegate run` enrols and brings the first certificate; or name its directory with --state-dir",
        )
    if store.owner() != os.geteuid():
        raise WrongUserError(
            f"the delegate of {settings.identity.state_dir} runs with uid {store.owner()}, this command with {os.geteuid()}: "
            "it could not read what this writes",
            hint=f"run this as the delegate's user: `setpriv --reuid {store.owner()} ...`, or `sudo -u` its name",
        )
    if OutsideDirectory(settings.identity.cert_dir).is_in_use():
        raise IdentityError(
            f"somebody else writes the certificates in {settings.identity.cert_dir}",
            hint="have its writer renew them: cert-manager, Vault agent or the sidecar that is at work there",
        )
    certificates = Certificates(settings, DelegateMetrics(settings.identity.name))
    certificates.load()
    transport = Transport(certificates.endpoint)
    keeper = _keeper(settings, store, identity, certificates)
    keeper.live_in(asyncio.get_running_loop(), transport)
    certificates.attach(keeper)
    try:
        await certificates.find_authority()
        try:
            return await certificates.rotator.rotate()
        except RenewalRefusedError as error:
            if certificates.holder.certificate is None:
                raise
            log.info("identity.renewal_refused", error=str(error))
            certificates.rotator.refuse(str(error))
            return await certificates.rotator.rotate()
    finally:
        await transport.close()


def _keeper(settings: DelegateSettings, store: IdentityStore, identity: Identity, certificates: Certificates) -> SessionKeeper:
    mark = identity.token_mark

    def note(token: Secret) -> None:
        nonlocal mark
        mark = "" if is_account_token(token) else mark_of(token)

    return SessionKeeper(
        Introduction(
            name=settings.identity.name,
            instance=identity.instance,
            incarnation="",
            boot_count=identity.boot_count,
            capacity=0,
            labels=dict(settings.identity.labels),
            kinds=(),
            build=BuildInfo(),
        ),
        Credentials(delegate_id=identity.delegate_id, refresh_token=identity.refresh_token),
        SessionHooks(
            bootstrap_token=settings.link.require_token,
            account_token=settings.link.account_token,
            clusters=tuple,
            attempts=tuple,
            on_enrolled=lambda delegate_id, refresh: store.enrol(delegate_id, refresh, mark),
            on_token_used=note,
            on_opened=lambda session, reports, decisions: None,
            on_token_expiry=lambda seconds: None,
            on_ended=lambda error: None,
            on_outdated=lambda error: None,
        ),
        Faults("rotation"),
    )
