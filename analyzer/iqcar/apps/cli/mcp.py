"""``iqcar mcp``: answer agents about folders of event logs."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import ImpactModel, QueryBy, SourceUsage


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
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. On any but a loopback address a token is asked for.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = 18481,
    token: Annotated[
        str,
        typer.Option(
            envvar="IQCAR_MCP_TOKEN",
            help="Secret that clients must send as Authorization: Bearer; better given in the "
            "environment as IQCAR_MCP_TOKEN. Generated where one is needed.",
        ),
    ] = "",
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder to keep results in, shared with `iqcar serve`, at most 1 GiB. By default "
            "iqcar in XDG_CACHE_HOME, else ~/.cache/iqcar.",
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1, max=64, help="Analyses that run at once; each needs memory for its logs."
        ),
    ] = 1,
    store: Annotated[
        str,
        typer.Option(
            metavar="STORE", help="Store of `iqcar history` to answer from too: weeks and fleets."
        ),
    ] = "",
    top: options.Top = 5,
    impact: options.Impact = ImpactModel.TIME_LOST,
    source_usage: options.Usage = SourceUsage.ACTIVE,
    query_by: options.Queries = QueryBy.SQL,
    critical_path: options.CriticalPath = False,
) -> None:
    """Answer agents over the Model Context Protocol: read-only tools about event logs.

    Applications are listed as by `iqcar serve`, analysed when an agent asks, and their results
    kept. Answers are bounded in size, paged, and carry evidence and doubts.

    Example: iqcar mcp spark-events/
    """
    from iqcar.apps.cli.extras import need

    need("mcp", "mcp", "starlette", "uvicorn", "prometheus_client")

    from iqcar.apps.mcp.agent_server import PATH, serve_http, serve_stdio
    from iqcar.apps.serve.cache import Cache, cache_folder
    from iqcar.apps.serve.served_paths import Places
    from iqcar.apps.serve.server import listen, token_for
    from iqcar.apps.serve.service import Service
    from iqcar.diagnosis import Settings

    settings = Settings(query_by, impact, source_usage, critical_path, top)
    places, kept = Places(paths), Cache(cache_folder(cache))
    service = Service(places, kept, settings, processes, store=store)
    if store:
        need("history", "duckdb", "fsspec", "pyarrow")
        from iqcar.history.stored_files import open_store

        open_store(store).must_exist()
    if not http:
        service.listing.check()
        serve_stdio(service)
        return
    secret = token_for(host, token)
    listening = listen(host, port)
    service.listing.check()
    name = f"[{host}]" if ":" in host else host
    said = f"Serving http://{name}:{listening.getsockname()[1]}{PATH}"
    if secret and not token:
        said += f"; clients send Authorization: Bearer {secret}"
    serve_http(service, listening, host, secret, lambda: typer.echo(said))
