"""The room that measures: candidates become launch plans, plans become reports.

`protocol`, `targets`, `queue` and `executor_client` are the front door that the service sees; everything else is
private to the room, and most of it runs in processes of its own.
"""
