"""Certificates: all evidence for one verdict in one document, which `reef verify` checks and repeats on other machines.

`document` is the format, `certifier` finds the records, `builder` fills the document, `verifier` repeats it.
"""
