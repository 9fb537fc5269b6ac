"""The report as one HTML file: what ``iqcar report`` writes and ``iqcar serve`` shows."""
