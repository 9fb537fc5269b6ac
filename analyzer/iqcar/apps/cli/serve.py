"""``iqcar serve``: serve pages and a JSON API over folders of event logs."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import ImpactModel, QueryBy, SourceUsage


def serve(
    paths: options.Paths,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. On any but a loopback address a token is asked for.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = 18480,
    token: Annotated[
        str,
        typer.Option(
            envvar="IQCAR_SERVE_TOKEN",
            help="Secret that browsers and programs must send; better given in the environment "
            "as IQCAR_SERVE_TOKEN. Generated where one is needed.",
        ),
    ] = "",
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder to keep results in, at most 1 GiB. By default iqcar in XDG_CACHE_HOME, "
            "else ~/.cache/iqcar.",
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1, max=64, help="Analyses that run at once; each needs memory for its logs."
        ),
    ] = 1,
    analyse_new: Annotated[
        float | None,
        typer.Option(
            "--analyse-new",
            metavar="HOURS",
            min=0,
            help="Analyse by itself each application that ended at most so many hours ago, one at "
            "a time, while nobody else waits for an analysis; without it only what is asked for.",
        ),
    ] = None,
    store: Annotated[
        str,
        typer.Option(
            metavar="STORE", help="Store of `iqcar history` to show too: weeks and fleets."
        ),
    ] = "",
    top: options.Top = 5,
    impact: options.Impact = ImpactModel.TIME_LOST,
    source_usage: options.Usage = SourceUsage.ACTIVE,
    query_by: options.Queries = QueryBy.SQL,
    critical_path: options.CriticalPath = False,
    by: options.By = "",
) -> None:
    """Show applications and their reports in a browser, and answer programs in JSON.

    Lists the applications whose event logs are in the given places, as the History Server does;
    each is analysed on request, alone or together with others that ran at the same time.
    Stops at Ctrl-C.

    Example: iqcar serve spark-events/
    """
    from iqcar.apps.cli.extras import need

    need("serve", "starlette", "uvicorn", "prometheus_client")
    if store:
        need("history", "duckdb", "fsspec", "pyarrow")

    from iqcar.apps.serve.cache import Cache, cache_folder
    from iqcar.apps.serve.served_paths import Places
    from iqcar.apps.serve.server import address_of, listen, token_for
    from iqcar.apps.serve.server import serve as serve_until_stopped
    from iqcar.apps.serve.service import Service
    from iqcar.diagnosis import Settings
    from iqcar.model.queries.owners import checked_grouping

    secret = token_for(host, token)
    places = Places(paths)
    kept = Cache(cache_folder(cache))
    grouping = checked_grouping(by) if by else ""
    settings = Settings(query_by, impact, source_usage, critical_path, top, grouping)
    service = Service(places, kept, settings, processes, analyse_new, store)
    if store:
        from iqcar.history.stored_files import open_store

        open_store(store).must_exist()
    listening = listen(host, port)
    service.listing.check()
    address = address_of(listening, host, secret)
    serve_until_stopped(service, listening, host, secret, lambda: typer.echo(f"Serving {address}"))
