"""The function libraries that Kubernetes gives to CEL, as far as values of JSON carry them. `x.f(y)` calls `f(x, y)`.

What Kubernetes holds in types of its own is text here, in one form for equal values, so that `==` means what it should: a quantity
its decimal number, an address and a network their canonical text, a URL itself. A function raises ValueError or TypeError without
quoting a value.
"""

from delegate.foundation.expressions.functions import addresses, conversions, lists, patterns, quantities, strings, urls
from delegate.foundation.expressions.functions.kinds import Functions

LIBRARY: Functions = {
    **conversions.FUNCTIONS,
    **strings.FUNCTIONS,
    **lists.FUNCTIONS,
    **patterns.FUNCTIONS,
    **quantities.FUNCTIONS,
    **addresses.FUNCTIONS,
    **urls.FUNCTIONS,
}
