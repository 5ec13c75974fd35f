"""Failures of our own machine on the archive's side.

ArchiveError
├── RecordNotFound       the record does not exist
├── RecordConflict       the state of the record does not allow the change
├── Unstorable           the database can hold no such value
├── UnreadableDump       the file is not a dump of an archive
└── DatabaseUnavailable  the database did not answer; the same call may succeed later
"""


class ArchiveError(Exception):
    """Root of the room's errors."""


class RecordNotFound(ArchiveError):
    """The archive holds no such thing."""


class RecordConflict(ArchiveError):
    """The state of a thing does not allow the change asked for."""


class Unstorable(ArchiveError):
    """A value that the database can neither hold nor look for: NUL, half a character, a number of too many bits."""


class UnreadableDump(ArchiveError):
    """A file that should hold an archive does not, or not all of it."""


class DatabaseUnavailable(ArchiveError):
    """The database did not answer; the same call may succeed later."""
