"""Property tests are not timed one example at a time: on a busy machine that fails by chance."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
