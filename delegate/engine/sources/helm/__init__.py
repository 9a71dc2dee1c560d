"""Charts as sources, rendered by `helm template` in a jail.

`charts` reads what a chart says about itself, `closures` finds the files that it takes, `integers` keeps whole numbers
whole, `impurity` finds what no two renders agree on, `rendering` runs the program, `outputs` reads what it printed.
"""
