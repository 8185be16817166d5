"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "ApplyDefaultSchedule": ".apply",
    "IS_SCHEDULED": ".rule",
    "PACKED_CONSTANTS": ".packing",
    "PACKED_KERNELS": ".packing",
    "PackConstants": ".packing",
    "PackedFunction": ".rule",
    "ScheduleRule": ".rule",
    "cpu": ".cpu:",
    "schedule": ".rule",
}
