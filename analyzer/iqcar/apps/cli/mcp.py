"""``iqcar mcp``: answer agents about folders of event logs."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import command
from iqcar.apps.cli.serve import Port, Serving, token_option


@command("Answers for agents (Model Context Protocol).", writes=(), needs="mcp")
def mcp(
    paths: options.Paths,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Listen for clients over streamable HTTP; without it answer the client that "
            "starts this command, over stdin and stdout.",
        ),
    ] = False,
    *,
    serving: Serving,
    port: Port = 18481,
    token: Annotated[
        str,
        token_option("IQCAR_MCP_TOKEN", "clients must send as Authorization: Bearer"),
    ] = "",
    how: options.Diagnosing,
) -> None:
    """Answer agents over the Model Context Protocol: read-only tools about event logs.

    Applications are listed as by `iqcar serve`, analysed when an agent asks, and their results
    kept. Answers are bounded in size, paged, and carry evidence and doubts.

    Example: iqcar mcp spark-events/
    """
    from iqcar.apps.mcp.agent_server import PATH, serve_http, serve_stdio
    from iqcar.apps.serve.server import address_of, listen, token_for

    service = serving.service(paths, how)
    if not http:
        service.listing.check()
        serve_stdio(service)
        return
    secret = token_for(serving.host, token)
    listening = listen(serving.host, port)
    service.listing.check()
    said = f"Serving {address_of(listening, serving.host, '').rstrip('/')}{PATH}"
    if secret and not token:
        said += f"; clients send Authorization: Bearer {secret}"
    serve_http(service, listening, serving.host, secret, lambda: typer.echo(said))
