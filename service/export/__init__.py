"""Export of a search's elites as a Python package that does not need Kernelreef.

`extraction` copies device functions out of a candidate by the word list in `vocabulary`. `host_code` writes host code
from launch plans; `modules` combines both. `selection` chooses an elite per shape, and `package_files` renders the
other files. `package` does the whole export, and compares each module with the judged plans.
"""
