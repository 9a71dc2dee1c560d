"""Telling the manager of dead letters, so that it can list them and send them round again."""

from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.errors import TransportError
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Session, new_request_id
from delegate.foundation.errors import DelegateError
from delegate.protocol import routes
from delegate.protocol.letters import LetterNotice, LettersAnswer, LettersRequest

_FEATURE = "dead-letters"
_SECONDS = 30.0


class LetterTeller:
    """Never waits for a session: whoever tells has other things to do, and tells again."""

    def __init__(self, caller: Caller, keeper: SessionKeeper, faults: Faults) -> None:
        self._caller = caller
        self._keeper = keeper
        self._faults = faults

    async def tell(self, notice: LetterNotice) -> None:
        """Returns when the manager knows of the letter, or is too old to. Raises TransportError or a RefusalError."""
        session = self._keeper.current
        if session is None:
            raise TransportError("there is no session with the manager to tell of a dead letter", hint="it is told later")
        if _FEATURE not in session.features:
            return
        request_id = new_request_id()

        def build(session: Session) -> LettersRequest:
            return LettersRequest(request_id=request_id, epoch=session.epoch, letters=(notice,))

        try:
            await self._caller.call(routes.LETTERS, build, LettersAnswer, within_seconds=_SECONDS)
        except DelegateError as error:
            self._faults.failed(routes.LETTERS, error, 0.0)
            raise
        self._faults.worked(routes.LETTERS)
