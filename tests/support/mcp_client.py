"""A client of agents' protocol that asks a server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.client.client import Client

    from iqcar.apps.serve.service import Service


@asynccontextmanager
async def client_of(service: Service) -> AsyncIterator[Client]:
    """The SDK's client, with a server in this process; both are slow to import."""
    from mcp.client.client import Client

    from iqcar.apps.mcp.agent_server import make_server

    async with service.running(), Client(make_server(service)) as client:
        yield client
