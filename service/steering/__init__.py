"""What people ask for, and what they change of searches that run."""
