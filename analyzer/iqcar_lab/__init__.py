"""The laboratory: what tries and proves iqcar, beside it. It imports iqcar, never the reverse.

    inject → experiment → printed → clusters → commands

Load on purpose, experiments with live queries, and the papers' methods exactly as printed.
"""
