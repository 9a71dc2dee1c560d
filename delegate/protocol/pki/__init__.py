"""Keys, requests and certificates as plain values, and what is decided about them. Nothing here reads a file, a socket or a clock.

A delegate makes its key itself (`keys`), asks for a certificate with a request (`requests`), and gets a chain that belongs to the key
(`pairs`) together with the authorities to believe from then on (`bundles`). When to renew, and how bad it is that nobody did, is decided in
`certificates`. The manager's side, which signs, is `issuing`; `proofs` shows that somebody has the key of an older certificate.
"""
