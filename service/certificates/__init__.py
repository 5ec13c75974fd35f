"""Certificates: all that a verdict rests on, in one document that anybody can check and repeat elsewhere.

`document` is the format, `making` fills it from records, `reading` finds the records, `verifying` repeats it.
"""
