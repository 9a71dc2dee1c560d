"""What names, labels and their values may look like (apimachinery `validation`): each rule gives what is wrong, if anything."""

import re

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL, _SUBDOMAIN, _LABEL_1035, _QUALIFIED, _VALUE = (
    re.compile(rf"(?:{form})\Z") for form in (LABEL, SUBDOMAIN, LABEL_1035, QUALIFIED, VALUE)
)

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an"
    f" alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric"
    f" character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an"
    f" alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{LABEL_1035}')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g."
    f" 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    f" alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{VALUE}')"
)


def subdomain(name: str) -> list[str]:
    found = [f"must be no more than {253} characters"] if len(name) > 253 else []
    return found if _SUBDOMAIN.match(name) else [*found, _SUBDOMAIN_TEXT]


def label(name: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    if _LABEL.match(name):
        return found
    return [*found, "must not contain dots" if _SUBDOMAIN.match(name) else _LABEL_TEXT]


def label_1035(name: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    return found if _LABEL_1035.match(name) else [*found, _LABEL_1035_TEXT]


def anything(_name: str) -> list[str]:
    """For kinds whose names nobody checks."""
    return []


def path_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def qualified(name: str) -> list[str]:
    prefix, slash, rest = name.rpartition("/")
    if name.count("/") > 1:
        return [
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
            f" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}') with an optional DNS"
            " subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    found = []
    if slash:
        if not prefix:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {text}" for text in subdomain(prefix)]
    if not rest:
        found.append("name part must be non-empty")
    elif len(rest) > 63:
        found.append("name part must be no more than 63 characters")
    return found if _QUALIFIED.match(rest) else [*found, _QUALIFIED_TEXT]


def label_value(value: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(value) > 63 else []
    return found if _VALUE.match(value) else [*found, _VALUE_TEXT]
