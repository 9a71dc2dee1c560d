"""Settings that hold for every test."""

import os

from hypothesis import settings

# A shared machine may stall any example for longer than a deadline; what is slow is caught by pytest-timeout instead.
settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile("thorough", parent=settings.get_profile("ci"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
