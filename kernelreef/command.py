"""The `reef` command: the command line of the service, with our packages regardless of the current folder."""

import sys

from kernelreef.rooms import HiddenPackage, leave_current_folder, room


def main() -> None:
    """Run `reef`."""
    leave_current_folder()
    try:
        command_line = room("service.cli")
    except HiddenPackage as error:
        sys.exit(f"reef: {error}")
    command_line.main()
