"""The report as one HTML file: what ``iqcar report`` writes and ``iqcar serve`` shows."""

from iqcar.show.html.page import page_policy, render_page

__all__ = ["page_policy", "render_page"]
