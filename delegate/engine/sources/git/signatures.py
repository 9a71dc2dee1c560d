"""Signatures of commits and tags: who signed, by git's own check with GnuPG and OpenSSH.

Only the keys that were given count: there is a key ring for each check, nobody's own is read, and no key is fetched.
"""

import asyncio
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from delegate.engine.sources.commands import Command, run_command
from delegate.engine.sources.errors import SignatureError, UnexpectedGitError
from delegate.engine.sources.git.faults import lacks_user
from delegate.foundation.passwd import INSTALL
from delegate.model.sources import SignaturePolicy, SignedObject

_SECONDS = 60.0
_OUTPUT_BYTES = 1024 * 1024
_STATUS = re.compile(r"^\[GNUPG:\] ([A-Z_]+) ?(.*)$", re.MULTILINE)
_SSH_GOOD = re.compile(r'^Good "git" signature for (\S+) with \S+ key (SHA256:\S+)$', re.MULTILINE)
_SSH_UNKNOWN = re.compile(r'^Good "git" signature with \S+ key (SHA256:\S+)$', re.MULTILINE)
_TAG_NAME = re.compile(r"^tag (.*)$", re.MULTILINE)
_TAG_OBJECT = re.compile(r"^object ([0-9a-f]+)$", re.MULTILINE)
_SIGNATURE = ("-----BEGIN PGP SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----", "-----BEGIN SIGNED MESSAGE-----")
_BAD = {
    "BADSIG": "its signature is not of this content",
    "REVKEYSIG": "the key that signed it has been revoked",
    "EXPKEYSIG": "the key that signed it has expired",
    "EXPSIG": "its signature has expired",
    "ERRSIG": "it is signed by a key that is not known",
    "NO_PUBKEY": "it is signed by a key that is not known",
}
_HINT = "have it signed by one of the accepted keys, or add the key of who signed it to those of the delegate"
_CONFIGURATION = "batch\nno-autostart\nno-auto-key-retrieve\nno-auto-key-locate\ntrust-model always\n"


class Keyring(msgspec.Struct, frozen=True):
    """Who may have signed: public keys of GnuPG (armored), and an allowed_signers file of OpenSSH (ssh-keygen(1))."""

    gpg_keys: tuple[str, ...] = ()
    allowed_signers: str = ""


class Tag(NamedTuple):
    """The mirror's ref of the tag that led to a commit, empty without one; and what the repository calls the tag."""

    ref: str
    name: str


class Signer(msgspec.Struct, frozen=True):
    """Who signed: the fingerprint of a key, and for OpenSSH the principal that it is of."""

    key: str
    principal: str = ""

    def __str__(self) -> str:
        return f"{self.principal} ({self.key})" if self.principal else self.key


class SignatureChecks:
    """Checks what one mirror holds. `environment` is that of git processes that talk to nobody."""

    def __init__(self, directory: Path, environment: Mapping[str, str], where: str) -> None:
        self._directory = directory
        self._environment = environment
        self._where = where

    async def verify(self, commit: str, tag: Tag, policy: SignaturePolicy, keyring: Keyring) -> str:
        """Who signed what, in words. Raises SignatureError."""
        wanted = policy.of
        name = await self._annotated(tag, commit) if tag.ref else ""
        if wanted is SignedObject.TAG and not name:
            raise self._refused(f"commit {commit[:12]}", "a signed tag is wanted, and no annotated tag led to it")
        words = []
        if name and wanted is not SignedObject.COMMIT:
            words.append(f"tag {name} is signed by {await self._check('verify-tag', tag.ref, f'tag {name}', policy, keyring)}")
        if wanted is SignedObject.COMMIT or wanted is SignedObject.BOTH or not name:
            what = f"commit {commit[:12]}"
            words.append(f"{what} is signed by {await self._check('verify-commit', commit, what, policy, keyring)}")
        return ", ".join(words)

    async def _annotated(self, tag: Tag, commit: str) -> str:
        """The tag's name where it is an object; one that was made for another name or of something else is refused."""
        if (await self._git("cat-file", "-t", tag.ref)).strip() != "tag":
            return ""
        text = await self._git("cat-file", "tag", tag.ref)
        name, leads_to = _TAG_NAME.search(text), _TAG_OBJECT.search(text)
        if name is None or name[1] != tag.name:
            raise self._refused(f"tag {tag.name}", f"it was made as {name[1] if name else 'nothing'}")
        if leads_to is None or leads_to[1] != commit:
            raise self._refused(f"tag {tag.name}", f"it doesn't lead to commit {commit[:12]} itself")
        return tag.name

    async def _check(self, verb: str, name: str, what: str, policy: SignaturePolicy, keyring: Keyring) -> Signer:
        kind = "tag" if verb == "verify-tag" else "commit"
        content = await self._git("cat-file", kind, name)
        if not any(mark in content for mark in _SIGNATURE):
            raise self._refused(what, "it is not signed")
        home = Path(await asyncio.to_thread(tempfile.mkdtemp))
        try:
            environment = await self._make_home(home, keyring)
            arguments = ("git", *_settings(home), f"--git-dir={self._directory}", verb, "--raw", name)
            completed = await run_command(Command(arguments, environment, directory=home), timeout=_SECONDS, stdout_limit=_OUTPUT_BYTES)
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, home, True))
        signer, fault = read_answer(completed.stderr)
        if signer is None or completed.exit_code != 0:
            raise self._refused(what, fault or "its signature can't be checked")
        if policy.keys and not any(_is_key(key, signer) for key in policy.keys):
            raise self._refused(what, f"it is signed by {signer}, which is none of the accepted keys")
        return signer

    async def _make_home(self, home: Path, keyring: Keyring) -> dict[str, str]:
        await asyncio.to_thread(_write_home, home, keyring)
        environment = {**self._environment, "HOME": str(home), "GNUPGHOME": str(home)}
        if keyring.gpg_keys:
            command = Command(("gpg", "--quiet", "--import", str(home / "keys")), environment, directory=home)
            await run_command(command, timeout=_SECONDS, stdout_limit=_OUTPUT_BYTES)
        return environment

    async def _git(self, *arguments: str) -> str:
        command = Command(("git", f"--git-dir={self._directory}", *arguments), self._environment, directory=self._directory)
        completed = await run_command(command, timeout=_SECONDS, stdout_limit=_OUTPUT_BYTES)
        if completed.exit_code != 0:
            raise UnexpectedGitError(f"{self._where}: git {arguments[0]} failed: {completed.stderr.strip()[:200]}")
        return completed.stdout.decode(errors="replace")

    def _refused(self, what: str, words: str) -> SignatureError:
        return SignatureError(f"{self._where}: {what} is not accepted: {words}", hint=_HINT)


def read_answer(stderr: str) -> tuple[Signer | None, str]:
    """Who signed by the words of GnuPG's status or of ssh-keygen, else what is wrong. Pure."""
    statuses = [(match[1], match[2]) for match in _STATUS.finditer(stderr)]
    for status, _ in statuses:
        if status in _BAD:
            return None, _BAD[status]
    valid = [rest.split() for status, rest in statuses if status == "VALIDSIG"]
    if len(valid) == 1 and sum(status == "GOODSIG" for status, _ in statuses) == 1:
        return Signer(valid[0][-1]), ""  # of the primary key, whichever of its keys signed
    good = _SSH_GOOD.findall(stderr)
    if len(good) == 1 and not statuses:
        return Signer(good[0][1], good[0][0]), ""
    if lacks_user(stderr):
        return None, f"ssh-keygen can't check it for a user without a passwd entry; {INSTALL}"
    if _SSH_UNKNOWN.search(stderr) or "No principal matched" in stderr:
        return None, "it is signed by a key that is not known"
    if "Could not verify signature" in stderr or "incorrect signature" in stderr:
        return None, "its signature is not of this content"
    return None, ""


def _settings(home: Path) -> Sequence[str]:
    signers = home / "allowed_signers"
    return ("-c", f"gpg.ssh.allowedSignersFile={signers}", "-c", "gpg.program=gpg", "-c", "gpg.ssh.program=ssh-keygen")


def _write_home(home: Path, keyring: Keyring) -> None:
    (home / "gpg.conf").write_text(_CONFIGURATION)
    (home / "keys").write_text("\n".join(keyring.gpg_keys))
    (home / "allowed_signers").write_text(keyring.allowed_signers)


def _is_key(wanted: str, signer: Signer) -> bool:
    """By fingerprint or, as Argo CD writes it, by its last sixteen digits; by principal."""
    text = wanted.replace(" ", "")
    if text in {signer.principal, signer.key}:
        return True
    return len(text) >= 16 and signer.key.upper().endswith(text.upper()) and not signer.principal
