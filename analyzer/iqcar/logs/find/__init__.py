"""Finding event logs in files, folders, zips and remote stores, and opening them."""
