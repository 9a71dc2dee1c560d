"""`delegate doctor`: checks of everything that a delegate needs, side by side, each bounded, none stopping another.

A check is a coroutine that returns findings; it may raise DelegateErrors, which become findings. Decisions are pure and live in
`findings`; everything else asks the machine, the network or a cluster, and changes nothing but one object in the bucket, which it deletes.
"""
