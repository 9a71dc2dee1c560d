"""Rules that people write: Common Expression Language with the function libraries that Kubernetes adds to it.

`programs` compiles and evaluates, `scanning` bounds what an expression may cost before it runs, `functions` holds the libraries
(strings, lists, patterns, quantities, addresses, URLs), `loading` brings in the interpreter on the first use and no earlier.
Not known, and refused by name when an expression is compiled: optionals (`.?`, `[?`), macros with two variables, `cel.bind`, backquotes.
"""
