"""Git repositories as sources, through the git program and one bare mirror a repository.

`urls` reads addresses, `settings` holds what may differ from place to place, `environments` hardens every call, `faults`
turns git's words into errors, `references` decides what a revision means (pure), `mirrors` fetches under a lock,
`objects` reads trees and blobs without a work tree; `checkouts` puts `submodules` and what `lfs` keeps in their places.
"""
