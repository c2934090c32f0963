"""Settings that every test shares."""

from hypothesis import settings

# The same examples in every run, so that a failure is a failure for everybody; no deadline, because machines differ.
settings.register_profile("auxo", derandomize=True, deadline=None)
settings.load_profile("auxo")
