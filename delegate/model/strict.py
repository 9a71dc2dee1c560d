"""What people write, read strictly."""

import msgspec


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """A part of a document in camelCase: a field that nobody knows is a fault, and what is as by default is not written out."""
