"""Failures of our own machine on the archive's side.

ArchiveError
├── RecordNotFound       the record does not exist
├── AmbiguousId          a short id fits several records
├── RecordConflict       the state of the record does not allow the change
├── Unstorable           the database can hold no such value
├── UnreadableDump       the file is not a dump of an archive
└── DatabaseUnavailable  the database did not answer; the same call may succeed later
"""


class ArchiveError(Exception):
    """Base of the archive's errors."""


class RecordNotFound(ArchiveError):
    """The archive holds no such record."""


class AmbiguousId(ArchiveError):
    """A short id fits several records."""


class RecordConflict(ArchiveError):
    """The state of the record does not allow the change."""


class Unstorable(ArchiveError):
    """A value that the database can neither hold nor look for: NUL, half a character, a number of too many bits."""


class UnreadableDump(ArchiveError):
    """The file is not a dump of an archive, or it is incomplete."""


class DatabaseUnavailable(ArchiveError):
    """The database did not answer; the same call may succeed later."""
