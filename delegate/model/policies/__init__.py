"""What may be put into a cluster: rules on planned objects, judged between plan and apply. Pure.

`rules` is the form of a policy file, `judging` the one call of the gate; the shipped rules stand in `images`, `secrets`, `pods` and
`placement`. A violation names object, file and line, rule and what to do, and never a value that could be secret.
"""
