"""Enrolment with the first of several tokens that the manager accepts."""

from collections.abc import Awaitable, Callable, Sequence

from delegate.daemon.connection.errors import ConnectionFaultError, RefusalError, ScopeMissingError, UnauthorizedError
from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.secrets import Secret
from delegate.protocol.enrolment import EnrolAnswer


class EnrolmentRefusedError(RefusalError):
    """There is no bootstrap token that the manager accepts."""

    default_code = "input.delegate_token"
    category = Category.INPUT


async def try_tokens(tokens: Sequence[Callable[[], Secret | None]], enrol: Callable[[Secret], Awaitable[EnrolAnswer]]) -> EnrolAnswer:
    """The answer to the first token that is accepted; each gives None, or raises DelegateError, where it is not there.

    Raises EnrolmentRefusedError where none is accepted, with what was said of each.
    """
    refusals: list[DelegateError] = []
    for find in tokens:
        try:
            token = find()
            if token is not None:
                return await enrol(token)
        except (UnauthorizedError, ScopeMissingError) as error:
            refusals.append(error)
        except ConnectionFaultError:
            raise
        except DelegateError as error:
            if not refusals:
                raise EnrolmentRefusedError(error.message, hint=error.hint) from error
    words = "; ".join(dict.fromkeys(str(each) for each in refusals)) or "there is none"
    other = f"; or {refusals[0].hint}" if len(refusals) > 1 and refusals[0].hint else ""
    raise EnrolmentRefusedError(
        f"the manager does not accept DELEGATE_TOKEN: {words}",
        hint=f"make a new one with `delegate token create --name NAME --scope GITOPS` and set DELEGATE_TOKEN_FILE or DELEGATE_TOKEN{other}",
    ) from (refusals[-1] if refusals else None)
