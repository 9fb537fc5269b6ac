"""Read untrusted files and write result files without following planted links."""
