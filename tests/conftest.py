"""Settings of hypothesis for all tests: examples have no deadline, as how long one takes is the machine's doing."""

from hypothesis import settings

settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")
