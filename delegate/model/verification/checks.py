"""Checks as task documents specify them, read strictly: what is asked of whom, what the answer has to be, and for how long.

Nothing here has a permissive default. What is not said is refused where it can't be guessed (a unit, a rule), and counts as not
verified where it concerns evidence.
"""

import enum
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.model.strict import Strict
from delegate.model.verification.conventions import named_unit
from delegate.model.verification.rules import Rule, RuleError, parse_rule, parse_share
from delegate.model.verification.units import Dimension, Unit, UnknownUnitError, parse_unit
from delegate.model.verification.windows import parse_time, range_seconds

MOST_CHECKS = 50
UNTIL_STOPPED = "until-stopped"
DEFAULT_EVERY = 30.0
SHORTEST_EVERY = 0.1
_NAME = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,62}")
_VARIABLE_VALUE = re.compile(r"[-A-Za-z0-9._:/@+]{1,253}")
_VARIABLE = re.compile(r"\$(?:\$|([A-Z][A-Z0-9_]*)|\{([A-Z][A-Z0-9_]*)\})")
_OF_PODS = ("PODS", "CANARY", "REVISION")
Fault = tuple[str, str, str]
"""Where, what, and what to do about it."""


class NoDataPolicy(enum.StrEnum):
    """What a reading without data does: `hold` waits for one that has some, until the deadline; `fail` ends the check.

    There is none that lets it pass.
    """

    HOLD = "hold"
    FAIL = "fail"


class PartialPolicy(enum.StrEnum):
    """What becomes of answers that their source calls incomplete or warns of."""

    ERROR = "error"
    ACCEPT = "accept"


class Reducer(enum.StrEnum):
    """How many series become one number. `worst` is the one farthest on the bad side of the rule."""

    WORST = "worst"
    MEAN = "mean"
    MEDIAN = "median"
    MIN = "min"
    MAX = "max"
    SUM = "sum"


class Direction(enum.StrEnum):
    """Which difference to the baseline is bad."""

    INCREASE = "increase"
    DECREASE = "decrease"
    EITHER = "either"


class ComparisonKind(enum.StrEnum):
    """`samples` compares values (latencies) by rank; `counts` compares events (errors) for how much there was to have them."""

    SAMPLES = "samples"
    COUNTS = "counts"


class Backoff(Strict, frozen=True):
    """Waits between tries after errors; a source's own hint goes before them. Without one, errors are tried again at the next tick."""

    first: str = "5s"
    factor: Annotated[float, msgspec.Meta(ge=1, le=10)] = 2.0
    cap: str = "60s"

    def wait_after(self, errors: int) -> float:
        """Seconds to wait after so many errors in a row (from 1)."""
        return float(min(parse_duration(self.cap), parse_duration(self.first) * self.factor ** min(errors - 1, 60)))


class Compare(Strict, frozen=True):
    """The same question about the old version, asked of the same source at the same time.

    `requests` asks how many requests it had, for `counts`. `alpha` bounds false alarms over all comparisons of a verification together.
    `allowedIncrease` and `allowedDecrease`: up to this much, relative to the baseline, a difference is none that matters.
    `worse`: the rise that a comparison of counts looks for, as a factor. `warmUp`: so long after the start, evidence is set aside.
    """

    baseline: str
    kind: ComparisonKind = ComparisonKind.SAMPLES
    requests: str = ""
    direction: Direction = Direction.INCREASE
    alpha: Annotated[float, msgspec.Meta(gt=0, le=0.2)] = 0.01
    allowed_increase: str = "0%"
    allowed_decrease: str = "0%"
    worse: Annotated[float, msgspec.Meta(gt=1, le=100)] = 3.0
    points: Annotated[int, msgspec.Meta(ge=5, le=1000)] = 5
    warm_up: str = "0s"


class Check(Strict, frozen=True):
    """One question, asked again and again, and what the answers have to be.

    `provider` names an entry of the delegate's configuration; `url` instead of it needs no credentials. `unit` is the source's,
    `threshold` bears its own. `for`: how long good evidence has to last, from the first reading with data on; without it one reading
    is enough; `until-stopped`: until whatever it watches ends. `over`: how far back one reading looks. `bucket`: the width of the
    source's buckets, of which only complete ones count. `readings`: how many with data are wanted, by default all that fit into `for`.
    `failWhen`: where given, values that neither pass the threshold nor fall under it are undecided. `where`: only series whose labels
    match these regular expressions are ours. `minRequests` (with `requests`, a query): below that there is no evidence. `emptyIs`: what an
    answer without a single row means, in the source's unit, where the source answers so for nothing found; by default no data.
    `parameters` are the provider's own.
    """

    name: str
    type: str
    provider: str = ""
    url: str = ""
    query: str = ""
    unit: str = ""
    threshold: str = ""
    fail_when: str = ""
    every: str = ""
    duration: str = msgspec.field(default="", name="for")
    initial_delay: str = "0s"
    over: str = ""
    bucket: str = ""
    readings: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    fails_allowed: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    consecutive_errors: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 4
    requests: str = ""
    min_requests: Annotated[float, msgspec.Meta(ge=0)] | None = None
    no_data: NoDataPolicy = NoDataPolicy.HOLD
    empty_is: float | None = None
    partial: PartialPolicy = PartialPolicy.ERROR
    reduce: Reducer | None = None
    where: dict[str, str] = {}
    timeout: str = "10s"
    deadline: str = ""
    backoff: Backoff | None = None
    compare: Compare | None = None
    critical: bool = True
    weight: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 1.0
    parameters: dict[str, str] = {}

    @property
    def every_seconds(self) -> float:
        return parse_duration(self.every) if self.every else DEFAULT_EVERY

    @property
    def until_stopped(self) -> bool:
        return self.duration == UNTIL_STOPPED

    @property
    def for_seconds(self) -> float:
        """How long evidence has to last; 0 for one reading, and for a check that has no end of its own."""
        return parse_duration(self.duration) if self.duration and not self.until_stopped else 0.0

    @property
    def bucket_seconds(self) -> float:
        return parse_duration(self.bucket) if self.bucket else 0.0

    @property
    def over_seconds(self) -> float:
        return parse_duration(self.over) if self.over else max(60.0, self.every_seconds, 2 * self.bucket_seconds)

    @property
    def wanted_readings(self) -> int:
        """Readings with data that a pass needs."""
        if self.readings is not None:
            return self.readings
        return 1 + int(self.for_seconds / self.every_seconds + 1e-9)

    @property
    def longest_seconds(self) -> float:
        """After how long there is a verdict whatever happens, from the first reading on; room for some that had no data."""
        if self.deadline:
            return parse_duration(self.deadline)
        return 2 * self.for_seconds + 4 * self.every_seconds + parse_duration(self.timeout)

    @property
    def names_pods(self) -> bool:
        """Whether its question says of which pods it is, so that it can be asked of others too."""
        texts = (self.query, self.url, self.requests, *self.where.values(), *self.parameters.values())
        return any((match[1] or match[2]) in _OF_PODS for text in texts for match in _VARIABLE.finditer(text))

    def asked_once(self) -> "Check":
        """The same question, answered by one reading."""
        return msgspec.structs.replace(self, duration="", initial_delay="0s", readings=None, fails_allowed=0, deadline="")

    @property
    def source_unit(self) -> Unit:
        return parse_unit(self.unit)

    @property
    def rule(self) -> Rule | None:
        return parse_rule(self.threshold) if self.threshold else None

    @property
    def fail_rule(self) -> Rule | None:
        return parse_rule(self.fail_when) if self.fail_when else None


class Workload(Strict, frozen=True):
    """Whose new version is verified: evidence counts from when all its pods of the new version were ready."""

    kind: str
    name: str


class PastWindow(Strict, frozen=True):
    """A time that has gone by (RFC 3339), judged now as it would have been judged then."""

    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")


class VerifySpec(Strict, frozen=True):
    """The spec of a verify task.

    `since` (RFC 3339): when the new version was ready and had its share; by default when the task begins. `variables` stand in queries
    as `$NAME` or `${NAME}`. `deadline` is that of the whole. `passScore`: the share of weights that has to pass; a critical check that
    doesn't pass fails the whole in any case.
    """

    verification: tuple[Check, ...] = ()
    since: str = ""
    variables: dict[str, str] = {}
    deadline: str = ""
    pass_score: Annotated[float, msgspec.Meta(gt=0, le=100)] = 100.0
    workload: Workload | None = None
    window: PastWindow | None = None


class UnknownVariableError(ValueError):
    """A query that names a variable which isn't there."""


def substitute(query: str, variables: Mapping[str, str]) -> str:
    """The query with `$NAME` and `${NAME}` filled in; `$$` is a dollar, and `$1` or `$name` are the backend's own. Raises
    UnknownVariableError."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not name:
            return "$"
        try:
            return variables[name]
        except KeyError:
            known = ", ".join(sorted(variables)) or "none"
            raise UnknownVariableError(f"${name} is no variable here; there are {known}") from None

    return _VARIABLE.sub(value, query)


ALWAYS_KNOWN = ("APPLICATION", "NAMESPACE")
KNOWN_OF_WORKLOADS = ("REVISION", "PODS")
"""The new version's label of revision, and a regular expression that its pods' names match."""


def faults_of_verification(spec: VerifySpec, *, known: Iterable[str] = ()) -> Iterable[Fault]:
    """Everything about a spec that can't be meant: field (from the spec on), words, hint. `known`: further variables that are there."""
    if not spec.verification:
        yield "verification", "there is no check: nothing would be verified, and nothing verified is no success", "add one"
    if len(spec.verification) > MOST_CHECKS:
        yield "verification", f"there are {len(spec.verification)} checks, at most {MOST_CHECKS} go", ""
    yield from _faults_of_times_of_the_whole(spec)
    for name, value in spec.variables.items():
        if not _VARIABLE_NAME.fullmatch(name):
            yield f"variables.{name}", "a variable's name has capital letters, digits and `_`", ""
        if not _VARIABLE_VALUE.fullmatch(value):
            yield f"variables.{name}", "a variable's value may have letters, digits and any of `-._:/@+`: it goes into queries", ""
    names: set[str] = set()
    of_workload = KNOWN_OF_WORKLOADS if spec.workload is not None else ()
    variables = dict.fromkeys((*spec.variables, *ALWAYS_KNOWN, *of_workload, *known), "x")
    for number, check in enumerate(spec.verification):
        where = f"verification[{number}]"
        if check.name in names:
            yield f"{where}.name", f"there are two checks {check.name!r}", ""
        names.add(check.name)
        yield from faults_of_check(check, where, variables)


def _faults_of_times_of_the_whole(spec: VerifySpec) -> Iterable[Fault]:
    yield from _faults_of_durations("", (("deadline", spec.deadline),))
    times = [("since", spec.since)] if spec.since else []
    if spec.window is not None:
        times += [("window.from", spec.window.start), ("window.to", spec.window.end)]
    faults = []
    for field, text in times:
        try:
            parse_time(text)
        except ValueError as error:
            faults.append((field, str(error), ""))
    yield from faults
    if spec.window is not None and not faults and parse_time(spec.window.end) <= parse_time(spec.window.start):
        yield "window.to", "the window ends before it begins", ""


def faults_of_names(field: str, names: Iterable[str], known: Collection[str]) -> Iterable[Fault]:
    """Of checks that are named and not there."""
    for name in names:
        if name not in known:
            words = f"it names the check {name!r}, which spec.verification does not hold"
            yield field, words, f"it holds: {', '.join(known) or 'none'}"


def faults_of_check(check: Check, where: str, variables: Mapping[str, str]) -> Iterable[Fault]:
    """What can't be meant of one check."""
    if not _NAME.fullmatch(check.name):
        yield f"{where}.name", f"{check.name!r} is no name; use letters, digits, `-`, `_` and `.`", ""
    if not check.type:
        yield f"{where}.type", "it is empty", "say what kind of source answers, such as prometheus"
    if check.provider and check.url:
        yield f"{where}.url", "it has both `provider` and `url`", "a url needs no provider; leave one of them out"
    if not check.provider and not check.url and check.type != "job":
        yield f"{where}.provider", "nobody is asked", "name a provider of the delegate's configuration, or give a url"
    yield from _faults_of_queries(check, where, variables)
    yield from _faults_of_times(check, where)
    yield from _faults_of_rules(check, where)
    for label, pattern in check.where.items():
        try:
            re.compile(substitute(pattern, variables))
        except UnknownVariableError as error:
            yield f"{where}.where.{label}", str(error), "a dollar of the expression itself is written $$"
        except re.error as error:
            yield f"{where}.where.{label}", f"{pattern!r} is no regular expression: {error}", ""
    if (check.min_requests is None) != (not check.requests) and not _counts(check):
        yield f"{where}.minRequests", "`requests` (a query) and `minRequests` (a number) go together", ""


def _counts(check: Check) -> bool:
    return check.compare is not None and check.compare.kind is ComparisonKind.COUNTS


def _faults_of_queries(check: Check, where: str, variables: Mapping[str, str]) -> Iterable[Fault]:
    if not check.query and not check.url and check.type not in ("http", "job"):
        yield f"{where}.query", "nothing is asked", "give the query whose answer is judged"
    compare = check.compare or Compare(baseline="")
    for field, query in (
        ("query", check.query),
        ("url", check.url),
        ("requests", check.requests),
        ("compare.baseline", compare.baseline),
        ("compare.requests", compare.requests),
    ):
        try:
            substitute(query, variables)
        except UnknownVariableError as error:
            yield f"{where}.{field}", str(error), "give it in spec.variables; a dollar of the query itself is written $$"


def _faults_of_times(check: Check, where: str) -> Iterable[Fault]:
    times = [
        ("every", check.every),
        ("for", "" if check.until_stopped else check.duration),
        ("initialDelay", check.initial_delay),
        ("over", check.over),
        ("bucket", check.bucket),
        ("timeout", check.timeout),
        ("deadline", check.deadline),
    ]
    if check.backoff is not None:
        times += [("backoff.first", check.backoff.first), ("backoff.cap", check.backoff.cap)]
    if check.compare is not None:
        times.append(("compare.warmUp", check.compare.warm_up))
    faults = list(_faults_of_durations(f"{where}.", times))
    yield from faults
    if faults:
        return
    if check.every_seconds < SHORTEST_EVERY:
        yield f"{where}.every", f"{check.every} is too often; at least 100ms", ""
    if parse_duration(check.timeout) <= 0:
        yield f"{where}.timeout", "it leaves no time for an answer", ""
    if check.duration and not check.until_stopped and check.for_seconds <= 0:
        yield f"{where}.for", "evidence has to last for some time", "leave it out where one reading is enough"
    if check.deadline and check.longest_seconds <= check.for_seconds:
        yield f"{where}.deadline", f"{check.deadline} is over before `for` ({check.duration}) can be", ""


def _faults_of_durations(where: str, times: Iterable[tuple[str, str]]) -> Iterable[Fault]:
    for field, text in times:
        if not text:
            continue
        try:
            parse_duration(text)
        except ValueError as error:
            yield f"{where}{field}", str(error), ""


def _faults_of_rules(check: Check, where: str) -> Iterable[Fault]:
    unit: Unit | None = None
    if check.unit:
        try:
            unit = check.source_unit
        except UnknownUnitError as error:
            yield f"{where}.unit", str(error), ""
    elif not _counts(check):
        yield f"{where}.unit", "the source's unit is missing: a number without one can't be judged", "say in which unit the query answers"
    named = named_unit(check.type, check.query)
    if unit is not None and named is not None and named[1].dimension is unit.dimension and named[1] != unit:
        words = f"{named[0]} is in {named[1].symbol} by its name, and the check says {unit.symbol}"
        yield f"{where}.unit", words, f"write unit: {named[1].symbol} (the rule may have another), or convert the value in the query"
    if not check.threshold and check.compare is None:
        yield f"{where}.threshold", "there is neither a threshold nor a comparison", RuleError.hint
    for field, text in (("threshold", check.threshold), ("failWhen", check.fail_when)):
        if not text:
            continue
        try:
            rule = parse_rule(text)
        except RuleError as error:
            yield f"{where}.{field}", str(error), RuleError.hint
            continue
        if field == "failWhen" and text.lstrip().startswith("fail if"):
            yield f"{where}.{field}", "it says `fail` twice", "leave `fail if` out"
        if unit is not None and rule.unit.dimension is not unit.dimension:
            words = f"{text!r} is about {_dimension(rule.unit)} and the source answers with {_dimension(unit)}"
            yield f"{where}.{field}", words, "let the unit and the rule measure the same"
    if check.compare is not None:
        yield from _faults_of_comparison(check, check.compare, f"{where}.compare")


def _faults_of_comparison(check: Check, compare: Compare, where: str) -> Iterable[Fault]:
    if check.threshold:
        yield where, "a check has either a threshold or a comparison", "make two checks of it"
    if check.where:
        yield where, "`where` keeps series of the new version alone, and the baseline has others", "let each query ask for its own"
    if check.fail_when:
        yield where, "`failWhen` belongs to a threshold: a comparison has no other rule", "leave it out"
    if not compare.baseline:
        yield f"{where}.baseline", "there is nothing to compare with", "give the same query for the old version"
    for field, text in (("allowedIncrease", compare.allowed_increase), ("allowedDecrease", compare.allowed_decrease)):
        try:
            parse_share(text)
        except RuleError as error:
            yield f"{where}.{field}", str(error), "write such as `10%`"
    if compare.kind is ComparisonKind.COUNTS and not (check.requests and compare.requests):
        yield f"{where}.requests", "counts are compared for how many requests there were", "give `requests` of both versions"
    if compare.kind is ComparisonKind.COUNTS:
        yield from _faults_of_counted_ranges(check, compare, where)
    if check.empty_is is not None and compare.kind is ComparisonKind.SAMPLES:
        yield (
            f"{where.rpartition('.')[0]}.emptyIs",
            "a sample that isn't there is none: in its place a number would be compared",
            "leave it out",
        )
    if check.until_stopped and compare.kind is ComparisonKind.SAMPLES:
        yield where, "samples are compared when `for` is over, and this check has no end", ""


def _faults_of_counted_ranges(check: Check, compare: Compare, where: str) -> Iterable[Fault]:
    """An event that two looks count is taken for two."""
    try:
        width = check.bucket_seconds or check.every_seconds
    except ValueError:
        return  # said elsewhere
    queries = {"query": check.query, "requests": check.requests, "baseline": compare.baseline, "baseline requests": compare.requests}
    for role, query in queries.items():
        longest = range_seconds(query)
        if longest > width * 1.001:
            words = f"the {role} counts {longest:g} s and is asked every {width:g} s, so that events would be counted more than once"
            yield where, words, "let the range be as long as `bucket`, or `every` without one"


def _dimension(unit: Unit) -> str:
    return {Dimension.TIME: "time", Dimension.RATIO: "a ratio", Dimension.BYTES: "bytes"}.get(unit.dimension, f"a {unit.dimension}")
