"""Output as compute-sanitizer 2025 prints it, cut down."""

from workers.sanitizer.findings import errors, findings
from workers.sanitizer.messages import BufferAllocation

PLACES = [
    BufferAllocation(shape="N=4", name="input 'x'", address=0x1000, bytes=8, functions=("scale",)),
    BufferAllocation(shape="N=4", name="output 'y'", address=0x2000, bytes=8, functions=("scale", "round")),
]
MEMCHECK = """========= COMPUTE-SANITIZER
a line of the program's own
========= Invalid __global__ read of size 2 bytes
=========     at kernel+0x250
=========     by thread (4,0,0) in block (0,0,0)
=========     Access at 0x1008 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x1000 of size 8 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernel [0x1] in libcuda.so.1
=========
========= ERROR SUMMARY: 1 error
"""
INITCHECK = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at kernel+0x80
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x2004
=========
========= ERROR SUMMARY: 17 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at kernel+0x150
=========     and Read access at kernel+0x170 [992 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
WARNED = """========= COMPUTE-SANITIZER
========= Warning: Race reported between Write access at kernel+0x150
=========     and Write access at kernel+0x150 [32 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
UNATTACHED = "========= Error: No attachable process found. compute-sanitizer timed-out.\n"


def test_a_read_outside_is_told_with_its_buffer() -> None:
    (finding,) = findings(MEMCHECK)
    told = finding.describe(PLACES)
    assert told == ("Invalid __global__ read of size 2 bytes, 1 bytes after the end of input 'x' at N=4, by 'scale'")
    assert errors(MEMCHECK) == 1


def test_a_read_of_what_nobody_wrote_is_told_with_its_place() -> None:
    (finding,) = findings(INITCHECK)
    assert "at byte 4 of output 'y' at N=4, by 'scale' or 'round'" in finding.describe(PLACES)
    assert errors(INITCHECK) == 17


def test_a_race_names_the_kernels_that_ran() -> None:
    (finding,) = findings(RACECHECK)
    assert finding.describe(PLACES) == "Race reported between Write access at kernel+0x150, by 'scale' or 'round'"
    assert errors(RACECHECK) == 1
    assert finding.describe([]) == "Race reported between Write access at kernel+0x150"


def test_addresses_before_the_start_are_told_as_such() -> None:
    (finding,) = findings(MEMCHECK.replace("0x1008", "0xffc"))
    assert "4 bytes before the start of input 'x'" in finding.describe(PLACES)


def test_what_is_no_error_is_no_finding() -> None:
    assert findings(WARNED) == findings(CLEAN) == findings(UNATTACHED) == []
    assert (errors(WARNED), errors(CLEAN), errors(UNATTACHED), errors("")) == (0, 0, None, None)
