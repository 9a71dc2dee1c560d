"""What `helm template` prints: objects by template, and complaints by file and line. Pure."""

import bisect
import re
import threading
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from delegate.engine.sources.errors import ChartDependencyError, RenderFailedError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import Loaded, SourceFile, load
from delegate.foundation.errors import DelegateError, ErrorGroup, flatten
from delegate.foundation.redaction import redact
from delegate.model.resources import Manifest, Origin

_SOURCE = re.compile(rb"^# Source: (\S.*)$", re.MULTILINE)
_PLACES = (
    re.compile(r"execution error at \((?P<file>[^:()]+):(?P<line>\d+):\d+\): (?P<words>.*)", re.DOTALL),
    re.compile(r"parse error at \((?P<file>[^:()]+):(?P<line>\d+)\): (?P<words>.*)", re.DOTALL),
    re.compile(r"^(?P<file>[^:\s]+):(?P<line>\d+):\d+ (?P<words>executing .*)", re.DOTALL),
    re.compile(r"template: (?P<file>[^:\s]+):(?P<line>\d+):\d+: (?P<words>.*)", re.DOTALL),
    re.compile(r"(?:YAML parse error on|parsing) (?P<file>[^:\s]*/[^:\s]*): (?P<words>.*)", re.DOTALL),
)
_MISSING = re.compile(r"found in Chart\.yaml, but missing in charts/ directory: (.*)")
_WARNING = re.compile(r'level=WARN msg="((?:[^"\\]|\\.)*)"|(?:warning|WARNING): (.*)')
_MOST_WARNINGS = 5
_OF_DRY_RUNS = "This chart or one of its subcharts contains CRDs"
"""Said where helm asks a cluster; what it is about is ordered and waited for here."""

Shown = Callable[[str], str]
"""The path in the repository of a file that helm names, beginning with the name of the chart."""


class Section(NamedTuple):
    """Where the output of one template begins."""

    line: int
    template: str


def read_output(output: bytes, otherwise: str, shown: Shown, limits: SourceLimits, stop: threading.Event) -> Loaded:
    """The objects of a render; their origins are templates. `otherwise` answers for what no template does.

    Raises a ManifestError, or an ErrorGroup of all that were found.
    """
    sections = _sections(output)
    starts = [section.line for section in sections]

    def template_at(line: int) -> str:
        index = bisect.bisect_right(starts, line) - 1
        return shown(sections[index].template) if index >= 0 else otherwise

    one_file = msgspec.structs.replace(limits, file_bytes=limits.total_bytes)
    try:
        loaded = load([SourceFile(otherwise, output)], one_file, stop)
    except DelegateError as error:
        faults = list(flatten(error))
        for each in faults:
            each.file, each.line = template_at(each.line or 0), None
            each.message = f"what helm renders can't be applied: {each.message}"
        raise (ErrorGroup(faults) if len(faults) > 1 else faults[0]) from error
    manifests = tuple(Manifest(manifest.body, Origin(template_at(manifest.origin.line))) for manifest in loaded.manifests)
    return Loaded(manifests, (), tuple(notice.replace(f"{otherwise}:", "what helm renders, line ") for notice in loaded.notices))


def explain(words: str, otherwise: str, shown: Shown) -> DelegateError:
    """The error that helm's words mean."""
    missing = _MISSING.search(words)
    if missing is not None:
        hint = "commit what `helm dependency build` puts into charts/"
        return ChartDependencyError(f"the chart needs {missing[1]}, which charts/ doesn't hold", hint=hint, file=otherwise)
    for pattern in _PLACES:
        match = pattern.search(words)
        if match is not None:
            line = int(match["line"]) if "line" in match.groupdict() else None
            return RenderFailedError(f"helm: {match['words']}", file=shown(match["file"]), line=line)
    return RenderFailedError(f"helm: {words}", hint="`helm template` says the same in a checkout", file=otherwise)


def warnings_of(stderr: str) -> tuple[str, ...]:
    """What helm warns of while it renders."""
    found = []
    for line in stderr.splitlines():
        match = _WARNING.search(line)
        if match is not None and not (match[1] or match[2]).startswith(_OF_DRY_RUNS):
            found.append(redact(match[1] or match[2]))
    return tuple(f"helm: {words[:300]}" for words in list(dict.fromkeys(found))[:_MOST_WARNINGS])


def _sections(output: bytes) -> list[Section]:
    found, line, position = list[Section](), 1, 0
    for match in _SOURCE.finditer(output):
        line += output.count(b"\n", position, match.start())
        position = match.start()
        # A comment below a separator; a text that reads like one stands indented.
        if output[max(0, position - 4) : position] == b"---\n":
            found.append(Section(line, match[1].decode(errors="replace").strip()))
    return found
