"""Spectroscope as printed (R. R. Sambasivan et al., NSDI 2011)."""
