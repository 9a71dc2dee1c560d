"""The TLS context that new connections to the manager are opened with: whom it believes, and which certificate it shows.

A context is made whole, then shown by one assignment; whoever has the one before keeps it until its connections are closed.
"""

import os
import ssl
import threading
from pathlib import Path
from weakref import WeakKeyDictionary

from delegate.daemon.connection.errors import TransportError
from delegate.daemon.connection.trust import believe, tls_context
from delegate.foundation.authorities import bundle_files, system_bundle

Stamp = tuple[tuple[tuple[int, int] | None, ...], ...]


class Contexts:
    """For any thread. `encrypted`: whether the manager is reached by https at all; without it there is no context."""

    def __init__(
        self, *, encrypted: bool, authorities: Path | None = None, manager_authorities: Path | None = None, pinned: str = ""
    ) -> None:
        """`authorities` are believed by everybody here, the others and `pinned` (PEM) for the manager alone."""
        self.encrypted = encrypted
        self._files = (("SSL_CERT_FILE", authorities), ("DELEGATE_MANAGER_CA_FILE", manager_authorities))
        self._pinned = pinned
        self._shown: tuple[Path | None, str] = (None, "")
        self._stamp: Stamp = ()
        self._made: WeakKeyDictionary[ssl.SSLContext, Stamp] = WeakKeyDictionary()
        self._guard = threading.Lock()
        self.current: ssl.SSLContext | None = None

    def make(self, pair: Path | None, told: str) -> ssl.SSLContext | None:
        """A context that shows the pair of a file (key and chain), or nothing; `told` are authorities (PEM). Blocking.

        Raises AuthoritiesError, TransportError for a pair that can't be loaded.
        """
        if not self.encrypted:
            return None
        stamp = self._stamps()
        context = tls_context(self._files[0][1])
        manager_authorities = self._files[1][1]
        if manager_authorities is not None:
            believe(context, manager_authorities, "DELEGATE_MANAGER_CA_FILE")
        for text in filter(None, (self._pinned, told)):
            context.load_verify_locations(cadata=text)
        if pair is not None:
            try:
                context.load_cert_chain(pair)
            except (OSError, ssl.SSLError) as error:
                raise TransportError(f"the certificate in {pair} can't be loaded: {error}") from error
        self._made[context] = stamp
        return context

    def show(self, context: ssl.SSLContext | None, pair: Path | None, told: str) -> None:
        """From now on, for new connections."""
        with self._guard:
            self._put(context, (pair, told))

    def pin(self, authorities: str) -> None:
        """Believes these as well, PEM; their fingerprint was what a person had written down. Blocking."""
        self._pinned = authorities
        self._make_anew()

    def follow_files(self) -> bool:
        """Makes the context anew where the files of authorities changed behind us; whether it did. Blocking. Raises AuthoritiesError."""
        if not self.encrypted or self._stamps() == self._stamp:
            return False
        self._make_anew()
        return True

    def _make_anew(self) -> None:
        """The same certificate with what is believed now; a newer certificate that came meanwhile stays, and is made anew instead."""
        while True:
            shown = self._shown
            context = self.make(*shown)
            with self._guard:
                if self._shown is shown:
                    self._put(context, shown)
                    return

    def _put(self, context: ssl.SSLContext | None, shown: tuple[Path | None, str]) -> None:
        """Critical section (`_guard`)."""
        self._shown = shown
        self._stamp = () if context is None else self._made.get(context, ())
        self.current = context

    def _stamps(self) -> Stamp:
        return (*(_stamps_of(path) for _, path in self._files), _stamps_of(system_bundle()))


def _stamps_of(path: Path | None) -> tuple[tuple[int, int] | None, ...]:
    """What changes when a file does, or one of a directory's; a mounted volume is swapped as a whole."""
    if path is None:
        return ()
    try:
        return tuple(_stamp(each) for each in (path, *bundle_files(path)))
    except OSError:
        return (None,)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns
