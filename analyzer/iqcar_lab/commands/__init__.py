"""The commands of ``iqcar-lab``."""
