"""CEL as rules are written in it: what evaluates to what, and what is refused before it runs."""

import contextlib
import datetime
import logging
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.foundation.expressions.errors import EvaluationError, InvalidExpressionError, UnknownExpressionError
from delegate.foundation.expressions.programs import Bindings, compile_expression

POD = {
    "metadata": {"name": "web", "labels": {"app": "web", "a/b": "c"}},
    "spec": {
        "containers": [
            {"name": "one", "image": "registry/one:1", "env": [{"name": "A", "value": "1"}], "ports": [80, 81]},
            {"name": "two", "image": "registry/two:latest", "env": []},
        ],
        "replicas": 3,
        "nothing": None,
    },
}


def evaluate(text: str, **variables: Any) -> Any:
    return compile_expression(text).evaluate(variables)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("object.spec.replicas + 1", 4),
        ("has(object.spec.replicas) && !has(object.spec.paused)", True),
        ("object.spec.containers.all(c, c.image.startsWith('registry/'))", True),
        ("object.spec.containers.exists(c, c.image.endsWith(':latest'))", True),
        ("object.spec.containers.exists_one(c, c.name == 'two')", True),
        ("object.spec.containers.filter(c, size(c.env) > 0).map(c, c.name)", ["one"]),
        ("object.spec.containers.map(c, c.env.size() > 0, c.name)", ["one"]),
        ("object.metadata.labels['a/b']", "c"),
        ("'app' in object.metadata.labels", True),
        ("object.metadata.labels.all(key, key.matches('^[a-z/]+$'))", True),
        ("object.spec.nothing == null", True),
        ("object.spec.missing || true", True),
        ("false && object.spec.missing", False),
        ("object.spec.replicas > 2 ? 'many' : 'few'", "many"),
        ("type(object.spec.replicas) == int", True),
        ("timestamp('2026-01-01T00:00:00Z') + duration('1h') > timestamp('2026-01-01T00:30:00Z')", True),
        ("duration('90m')", datetime.timedelta(minutes=90)),
        ("string(true) + string(1) + string(1.0) + string('x')", "true11x"),
        ("bool('true')", True),
        ("int('7') + int(1.9)", 8),
        ("[1, 2] + [3]", [1, 2, 3]),
        ("{'a': 1}.a", 1),
    ],
)
def test_the_language(text: str, value: object) -> None:
    """Fields, macros, conversions and times mean what CEL says."""
    assert evaluate(text, object=POD) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a,b,c'.split(',')", ["a", "b", "c"]),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("'a,b'.split(',', 0)", []),
        ("'abc'.split('')", ["a", "b", "c"]),
        ("['a', 'b'].join('-') + ['a', 'b'].join()", "a-bab"),
        ("'ÀbC'.lowerAscii() + 'aé'.upperAscii()", "ÀbcAé"),
        ("' x '.trim()", "x"),
        ("'aaa'.replace('a', 'b', 2)", "bba"),
        ("'hello'.substring(1, 3) + 'hello'.substring(4) + 'hello'.charAt(0) + 'x'.charAt(1)", "eloh"),
        ("['banana'.indexOf('an'), 'banana'.indexOf('an', 2), 'banana'.lastIndexOf('an'), 'banana'.indexOf('x')]", [1, 3, 3, -1]),
        ("[[1, 2, 1].indexOf(1), [1, 2, 1].lastIndexOf(1), [1].indexOf(true)]", [0, 2, -1]),
        ("[[1, 2].isSorted(), ['b', 'a'].isSorted()]", [True, False]),
        ("[[1, 2].sum(), [1, 2].min(), [1, 2].max(), [].sum()]", [3, 1, 2, 0]),
        ("[duration('1s'), duration('2s')].sum() == duration('3s')", True),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])", True),
        ("'abc 123'.find('[0-9]+') + 'abc'.find('[0-9]+')", "123"),
        ("'a1b2c3'.findAll('[0-9]')", ["1", "2", "3"]),
        ("'a1b2c3'.findAll('[0-9]', 2)", ["1", "2"]),
        ("matches('abc', 'b') && 'abc'.matches('^abc$')", True),
        ("'%s has %d%%'.format(['web', 5])", "web has 5%"),
    ],
)
def test_strings_lists_and_patterns(text: str, value: object) -> None:
    """The function libraries that Kubernetes adds for strings, lists, sets and regular expressions."""
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "quantity('1000m') == quantity('1')",
        "quantity('1Gi').isGreaterThan(quantity('1G'))",
        "quantity('200M').compareTo(quantity('0.2G')) == 0",
        "quantity('50k').add(20) == quantity('50020')",
        "quantity('50k').sub(quantity('20k')) == quantity('30k')",
        "quantity('1.5Gi').asInteger() == 1610612736",
        "!quantity('250m').isInteger() && quantity('-1').sign() == -1",
        "isQuantity('1e3') && !isQuantity('1 Gi') && !isQuantity('')",
        "quantity('250m').asApproximateFloat() == 0.25",
        "isURL('https://a.example:80/b%20c?x=1&x=2') && !isURL('nothing')",
        "!isURL('https://a.example/b c')",
        "url('https://a.example:80/p?x=1&x=2').getPort() == '80'",
        "url('https://[::1]:80/p').getHostname() == '::1'",
        "url('https://a.example/p').getScheme() == 'https' && url('/p/q').getEscapedPath() == '/p/q'",
        "url('https://a.example/p?x=1&x=2').getQuery() == {'x': ['1', '2']}",
        "isIP('::1') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6",
        "ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.1.2.3'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('10.1.2.3/8').prefixLength() == 8",
        "isCIDR('::/0') && !isCIDR('10.0.0.1')",
    ],
)
def test_quantities_urls_and_addresses(text: str) -> None:
    """The function libraries that Kubernetes adds for quantities, URLs, IP addresses and networks."""
    assert evaluate(text) is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("object.spec.missing", "no such key: missing"),
        ("object.spec.replicas.deeper", "no such overload"),
        ("object.spec.containers[7]", "index out of bounds: 7"),
        ("object.spec.replicas + 'x'", "no such overload"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("int('x')", "type conversion error"),
        ("string(null)", "no such overload"),
        ("unknown == 1", "undeclared reference to 'unknown'"),
        ("object.spec.replicas.startsWith('a')", "no such overload"),
        ("[1].join()", "no such overload"),
        ("'abc'.substring(2, 1)", "index out of range"),
        ("quantity('x')", "quantities must match"),
        ("[].min()", "min called on empty list"),
        ("'x'.find('(a+)+')", "repetition inside of a repetition"),
        ("'x'.find('(?=a)')", "refers back or looks around"),
        ("'x'.find('(')", "no valid regular expression"),
    ],
)
def test_no_answer_is_an_error_in_the_words_of_cel(text: str, message: str) -> None:
    """Missing keys, operands that don't fit and arguments out of range."""
    with pytest.raises(EvaluationError, match=message.replace("(", r"\(")):
        evaluate(text, object=POD)


@pytest.mark.parametrize(
    ("text", "row", "column"),
    [("object.a ||", 1, 12), ("object.a &&\n  == 1", 2, 3), ("", 1, 1), ("a b", 1, 3), ("'open", 1, 1)],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, row: int, column: int) -> None:
    """The place counts lines and columns from 1."""
    with pytest.raises(InvalidExpressionError) as refused:
        compile_expression(text)

    assert (refused.value.row, refused.value.column) == (row, column)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("object.?spec.replicas", "optionals"),
        ("object[?'spec']", "optionals"),
        ("optional.of(1).orValue(2)", "orValue|of"),
        ("cel.bind(x, 1, x + 1)", r"bind\(\)"),
        ("object.spec.all(i, v, v > 0)", "two variables"),
        ("object.spec.exists(key, value, value.all(x, x > 0, x))", "two variables"),
        ("object.spec.transformList(i, v, v)", "transformList"),
        ("object.`a-b`", "quoted field names"),
        ("authorizer.group('').check('get')", "check|group"),
        ("nonesuch(1)", r"nonesuch\(\)"),
    ],
)
def test_what_is_not_known_here_is_refused_by_name(text: str, message: str) -> None:
    """Optionals, two-variable macros, bindings and unknown functions are told when a rule is loaded, not when it runs."""
    with pytest.raises(UnknownExpressionError, match=message):
        compile_expression(text)


def test_an_unknown_variable_is_refused_when_the_names_are_given() -> None:
    """Macro variables are no unknown ones, types and namespaces neither."""
    compile_expression("object.a.all(x, x > 1) || type(1) == int", variables={"object"})
    compile_expression("sets.contains([1], [1])", variables={"object"})

    with pytest.raises(InvalidExpressionError, match="undeclared reference to 'obj'"):
        compile_expression("obj.a", variables={"object", "oldObject"})


def test_text_in_strings_and_comments_is_no_syntax() -> None:
    """Brackets, macros and optionals inside of literals and comments mean nothing."""
    assert evaluate("'a.?b [?c] .all(x, y, z) `' + \"((\" + r'\\d(' // .? and (((\n + '''it's'''") == "a.?b [?c] .all(x, y, z) `((\\d(it's"


@pytest.mark.parametrize(
    "text",
    [
        "1" + " + 1" * 4000,
        "(" * 80 + "1" + ")" * 80,
        "a" * 20_000,
        "o.all(a, " * 8 + "true" + ")" * 8,
    ],
)
def test_an_expression_that_is_too_much_is_refused(text: str) -> None:
    """Length and nesting are bounded before anything is parsed by native code."""
    with pytest.raises(InvalidExpressionError):
        compile_expression(text)


@pytest.mark.parametrize(
    "text",
    ["l.all(a, l.all(b, l.all(c, a == b || b == c || true)))", "l.map(a, a)", "l.all(a, l.filter(b, b == a).size() > 0)"],
)
def test_loops_that_would_not_end_soon_are_cancelled(text: str) -> None:
    """Nested loops multiply, and copying loops do by themselves; a walk down a tree does not."""
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        evaluate(text, l=list(range(3000)))

    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        evaluate("t.split('').all(a, t.split('').all(b, a == b))", t="a" * 3000)

    lines = {"a.conf": "line\n" * 20_000, "b.conf": "x"}
    assert evaluate("d.all(k, d[k].split('\\n').all(line, !line.startsWith('y')))", d=lines) is True

    tree = {"a": [{"b": [{"c": [1, 2]}, {"c": [3]}]} for _ in range(400)]}
    assert evaluate("t.a.all(a, a.b.all(b, b.c.all(c, c >= 0)))", t=tree) is True
    assert evaluate("l.all(a, l.exists_one(b, a == b))", l=list(range(200))) is True


def test_values_that_are_too_deep_or_too_many_are_refused() -> None:
    """Native code follows values downwards on the stack, so their depth is bounded."""
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]

    with pytest.raises(EvaluationError, match="deeper"):
        evaluate("size(o) > 0", o=deep)
    with pytest.raises(EvaluationError, match="parts"):
        evaluate("size(o) > 0", o=list(range(300_000)))


def test_bindings_serve_many_expressions() -> None:
    """Values that several rules look at are converted once, and stay as they were."""
    bindings = Bindings({"object": POD})

    assert compile_expression("object.spec.replicas").evaluate(bindings) == 3
    assert compile_expression("object.spec.replicas").evaluate(bindings) == 3
    assert compile_expression("object.metadata.name").evaluate(bindings) == "web"


def test_values_reach_no_message_and_no_log(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """An expression about a Secret that fails says neither there nor on standard error what is in it."""
    secret = {"data": {"password": "hunter2"}}
    texts = [
        "quantity(object.data.password)",
        "int(object.data.password)",
        "url(object.data.password)",
        "object.data.password + 1",
        "duration(object.data.password)",
        "timestamp(object.data.password)",
        "'x'.find(object.data.password + '(')",
        "object.data.password.format([1, 2])",
        "object.data.password.matches(object.data.password + '(')",
        "ip(object.data.password)",
    ]

    with caplog.at_level(logging.DEBUG):
        for text in texts:
            try:
                answer = str(evaluate(text, object=secret))
            except EvaluationError as error:
                answer = f"{error} {error.hint} {error.__cause__}"
            if "format" not in text:
                assert "hunter2" not in answer, text

    out, err = capfd.readouterr()
    assert "hunter2" not in out + err
    assert caplog.text == ""  # an answer that there is none is for whoever asked, not for the log


def test_the_interpreter_is_loaded_on_first_use_without_its_command_line() -> None:
    """A process that evaluates nothing loads nothing; one that does is spared pydantic and prompt_toolkit."""
    code = (
        "import sys; from delegate.foundation.expressions.programs import compile_expression;"
        "assert 'cel' not in sys.modules; compile_expression('1').evaluate({});"
        "print(sorted({'cel', 'cel.cli', 'pydantic', 'typer', 'prompt_toolkit'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "['cel']"


_words = st.sampled_from(
    [
        "object",
        "object.spec",
        ".spec",
        ".name",
        "[0]",
        "['a']",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ".",
        ".?",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "&&",
        "||",
        "?",
        "in",
        "has(",
        "size(",
        ".all(x,",
        ".map(x,",
        ".filter(x,",
        "x",
        "1",
        "1u",
        "2.5",
        "'a'",
        "null",
        "true",
        "r'\\d'",
        ".matches(",
        ".split(",
        "quantity(",
        "cel.bind(",
        "//",
        "\n",
        "`",
        "\\",
        '"',
        "'''",
        "timestamp(",
        "duration(",
        ".exists(",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_words, max_size=25).map(" ".join) | st.text(max_size=40))
def test_any_text_is_an_answer_or_an_error_of_ours(text: str) -> None:
    """Whatever is written, nothing but this package's errors comes out."""
    with contextlib.suppress(InvalidExpressionError, EvaluationError):
        compile_expression(text).evaluate({"object": POD})


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(_json)
def test_any_value_passes_through(value: Any) -> None:
    """Values of JSON come back as they went in, but for integers beyond 64 bits."""
    found = compile_expression("v").evaluate({"v": value})

    assert compile_expression("v == w").evaluate({"v": value, "w": found}) is True
