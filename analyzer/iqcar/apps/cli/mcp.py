"""``iqcar mcp``: answer agents about folders of event logs."""

from __future__ import annotations

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import MCP, command
from iqcar.apps.cli.serve import Serving


@command("Answers for agents (Model Context Protocol).", writes=(), needs=MCP)
def mcp(
    paths: list[str],
    *,
    http: bool = False,
    serving: Serving,
    port: int = 18481,
    token: str = "",
    how: options.Diagnosing,
) -> None:
    """Answer agents over the Model Context Protocol: read-only tools about event logs.

    Applications are listed as by `iqcar serve`, analysed when an agent asks, and their results
    kept. Answers are bounded in size, paged, and carry evidence and doubts.

    Example: iqcar mcp spark-events/

    Parameters
    ----------
    http
        Listen for clients over streamable HTTP; without it answer the client that starts this
        command, over stdin and stdout.
    port : 0..65535
        Port to listen on; 0 chooses a free one.
    token : $IQCAR_MCP_TOKEN
        Secret that clients must send as Authorization: Bearer; better given in the environment as
        IQCAR_MCP_TOKEN. Generated where one is needed.
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
