"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".apply": "ApplyDefaultSchedule schedule",
    ".cpu:": "cpu",
    ".rule": "IS_SCHEDULED PackedFunction Refusal ScheduleRule",
}
