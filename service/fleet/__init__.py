"""Who does the work: worker processes of this machine, and hosts that joined."""
