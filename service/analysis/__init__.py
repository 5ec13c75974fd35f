"""What a search found and how it got there, read back from the archive."""
