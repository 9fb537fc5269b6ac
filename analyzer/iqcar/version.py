"""Declares the version of iqcar, read by the build and written into every result."""

__version__ = "0.2.0"
