"""Decodes manifests exactly as kubectl does, but refuses what would be lost or changed in silence.

`files.load` is the way in. `scalars` knows what a plain word means; `composition` turns libyaml's events into values,
with `aliases` and `merging`; `json_documents` reads what begins with `{`; `lists` takes lists apart; `objects` says what
is wrong with one; `positions` finds the line of a field; `syntax` puts faults of a text into words.
"""
