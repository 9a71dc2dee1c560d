"""The HTTP surface: operations declared once, served, described by OpenAPI, and checked against that description."""
