"""Accountants by class: `airfl.privacy.accountants`, under a shorter name."""

import sys
from typing import TYPE_CHECKING

from airfl.privacy import accountants

if TYPE_CHECKING:
    from airfl.privacy.accountants import *  # noqa: F403

sys.modules[__name__] = accountants
