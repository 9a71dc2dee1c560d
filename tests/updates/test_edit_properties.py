"""Whatever YAML with comments a file holds: an edit changes its own scalar, and no other byte."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.updates.finding import find_scalar
from delegate.model.updates.paths import Index, Key
from delegate.model.updates.scalars import Value
from delegate.model.updates.splicing import Replacement, splice
from delegate.model.updates.texts import AnyNode, ListNode, Mapping, Scalar, read_yaml

_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp"), exclude_characters="\ufeff"), max_size=8)
_NAMES = st.text("abcdefghij-_.", min_size=1, max_size=6).map(lambda name: "k" + name)
_TRICKY = """1.10 1e3 012 0o17 yes null ~ 2026-01-01 1:30 v1.4.0 = << - ? : ! & * | > % @ ` { [ , .5 -1 +1 .inf 0x1f 1_000"""
_VALUES: st.SearchStrategy[Value] = st.one_of(
    _WORDS,
    st.sampled_from([*_TRICKY.split(), "", "a: b", "- x", "# no", "x # y", "x\ny", "'", '"', " x", "x "]),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)


@st.composite
def _scalar(draw: st.DrawFn) -> str:
    word = draw(_WORDS)
    return draw(
        st.sampled_from(
            [
                "'" + word.replace("'", "''") + "'",
                '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"',
                draw(st.sampled_from(["plain", "1.2", "3", "true", "~", "a b", "http://x:1/y"])),
            ]
        )
    )


@st.composite
def _flow(draw: st.DrawFn) -> str:
    space = draw(st.sampled_from(["", " ", "  "]))
    if draw(st.booleans()):
        return "[" + f",{space} ".join(draw(st.lists(_scalar(), max_size=3))) + space + "]"
    members = draw(st.dictionaries(_NAMES, _scalar(), max_size=3))
    return "{" + space + ", ".join(f"{name}: {value}" for name, value in members.items()) + "}"


@st.composite
def _block(draw: st.DrawFn, depth: int = 0, indent: int = 0) -> list[str]:
    lines: list[str] = []
    step = draw(st.integers(1, 4))
    for name in draw(st.lists(_NAMES, min_size=1, max_size=3, unique=True)):
        if draw(st.booleans()):
            lines.append(" " * draw(st.integers(0, 8)) + "# " + draw(_WORDS))
        kind = draw(st.integers(0, 5 if depth < 3 else 3))
        comment = draw(st.sampled_from(["", "  # kept: 'as' \"is\"", "\t# tab"]))
        head = " " * indent + name + ":"
        if kind <= 2:
            lines.append(f"{head}{' ' * draw(st.integers(1, 3))}{draw(_scalar())}{comment}")
        elif kind == 3:
            lines.append(f"{head} {draw(_flow())}{comment}")
        elif kind == 4:
            lines += [head + comment, *draw(_block(depth + 1, indent + step))]
        else:
            items = draw(st.lists(_block(depth + 2, indent + 2), min_size=1, max_size=2))
            lines.append(head)
            for item in items:
                first = next(number for number, line in enumerate(item) if not line.lstrip().startswith("#"))
                item[first] = " " * indent + "- " + item[first].lstrip()
                lines += item
    return lines


@st.composite
def _files(draw: st.DrawFn) -> str:
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    documents = draw(st.lists(_block(), min_size=1, max_size=2))
    text = f"{ending}---{ending}".join(ending.join(lines) for lines in documents)
    return draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", ending]))


Way = tuple[Key | Index, ...]


def _scalars(node: AnyNode, way: Way = ()) -> list[tuple[Way, Scalar]]:
    match node:
        case Scalar():
            return [(way, node)]
        case Mapping(members=members):
            return [found for key, value in members for found in _scalars(value, (*way, Key(key.value)))]
        case ListNode(items=items):
            return [found for number, item in enumerate(items) for found in _scalars(item, (*way, Index(number)))]
        case _:
            return []


def _at(data: object, way: Way) -> object:
    for step in way:
        data = data[step.name] if isinstance(step, Key) else data[step.position]  # type: ignore[index]
    return data


def _without(data: object, way: Way) -> object:
    """The data with a mark at one place."""
    if not way:
        return "(edited)"
    step = way[0]
    if isinstance(step, Key):
        assert isinstance(data, dict)
        return {name: _without(value, way[1:]) if name == step.name else value for name, value in data.items()}
    assert isinstance(data, list)
    return [_without(value, way[1:]) if number == step.position else value for number, value in enumerate(data)]


def _load(text: str) -> list[object]:
    return [each for each in yaml.load_all(text.removeprefix("\ufeff"), Loader=yaml.CBaseLoader) if each is not None]


@given(_files(), _VALUES, st.data())
def test_every_other_byte_stays(text: str, value: Value, data: st.DataObject) -> None:
    """What stands before and behind the scalar is as it was, the value is read back, and the rest of the data is the same."""
    source = read_yaml(text, "f.yaml")
    number, (way, scalar) = data.draw(
        st.sampled_from([(number, found) for number, document in enumerate(source.documents) for found in _scalars(document)])
        if any(_scalars(document) for document in source.documents)
        else st.nothing()
    )
    spliced = splice(source, [Replacement(scalar, value, "x")])

    assert spliced.text.startswith(text[: scalar.start])
    assert spliced.text.endswith(text[scalar.end :])
    before, after = _load(text)[number], _load(spliced.text)[number]
    assert _without(before, way) == _without(after, way)
    again = splice(read_yaml(spliced.text, "f.yaml"), [Replacement(_again(spliced.text, number, way), value, "x")])
    assert (again.text, again.touched) == (spliced.text, ()), "made twice, it is no change"
    read = _at(list(yaml.load_all(spliced.text.removeprefix("\ufeff"), Loader=yaml.CSafeLoader))[number], way)
    if isinstance(value, str):
        assert read == value
    elif scalar.style in ("'", '"') and value is not None:
        assert isinstance(read, str)
    elif not isinstance(value, float):  # 1e+16 is a text to YAML 1.1 and a number to everybody else
        assert read == value


def _again(text: str, number: int, way: Way) -> Scalar:
    source = read_yaml(text, "f.yaml")
    single = type(source)(source.file, source.text, source.events, (source.documents[number],))
    return find_scalar(single, way)
