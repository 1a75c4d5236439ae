"""Models: `airfl.tasks.models` under a shorter name."""

import sys
from typing import TYPE_CHECKING

from airfl.tasks import models

if TYPE_CHECKING:
    from airfl.tasks.models import *  # noqa: F403

sys.modules[__name__] = models
