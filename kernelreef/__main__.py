"""`python -m kernelreef` is `reef`."""

from kernelreef.command import main

main()
