"""Times: those that `--since` may name, and how a report has one."""

import re
from datetime import datetime, timedelta, timezone

LAST = "last"
ALLOWED = "a span (30m, 2h, 7d, 2w), a date or time (2026-11-24, 09:12, 2026-11-24T09:12), or last"
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)


def iso(at: int) -> str:
    """Return a time in seconds since 1970 as ISO 8601, UTC."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="seconds")


def moment(word: str, now: datetime) -> datetime | None:
    """Return the moment that a word names, None for the last report.

    A word without a zone is of this machine's zone; a clock time alone is the last time that the
    clock had it. `now` has a zone. ValueError, with the reason (maybe none), for any other word.
    """
    if word == LAST:
        return None
    try:
        found = _moment(word, now)
    except OverflowError:
        raise ValueError("before the first date of a calendar") from None
    if found > now:
        raise ValueError("in the future")
    return found


def _moment(word: str, now: datetime) -> datetime:
    if span := _SPAN.fullmatch(word):
        return now - timedelta(**{_UNITS[span[2]]: int(span[1])})
    if _CLOCK.fullmatch(word):
        hour, minute = map(int, word.split(":"))
        try:
            today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        except ValueError:
            raise ValueError("no time of a day") from None
        return today if today <= now else today - timedelta(days=1)
    if not _DATE.fullmatch(word):
        raise ValueError("")
    try:
        given = datetime.fromisoformat(word.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("no such date or time") from None
    return given.astimezone()
