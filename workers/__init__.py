"""Workers: they turn candidates into launch plans, and plans into reports.

The service uses `protocol`, `targets`, `queue` and `executor_client` alone. Everything else is private to this package,
and most of it runs in processes of its own.
"""
