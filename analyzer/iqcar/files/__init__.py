"""Opening untrusted files, and writing derived ones: never through a planted link."""
