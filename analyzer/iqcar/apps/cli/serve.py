"""``iqcar serve``: serve pages and a JSON API over folders of event logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import HISTORY, SERVE, command, need

if TYPE_CHECKING:
    from iqcar.apps.serve.service import Service


@dataclass(frozen=True)
class Serving:
    """Where answers are given, and what is kept for them.

    Attributes
    ----------
    host : ADDRESS
        Address to listen on. On any but a loopback address a token is asked for.
    cache : DIR
        Folder to keep results in, shared by `iqcar serve` and `iqcar mcp`, at most 1 GiB. By
        default iqcar in XDG_CACHE_HOME, else ~/.cache/iqcar.
    processes : 1..64
        Analyses that run at once; each needs memory for its logs.
    store : STORE
        Store of `iqcar history` to answer from too: weeks and fleets.
    """

    host: str = "127.0.0.1"
    cache: str | None = None
    processes: int = 1
    store: str = ""

    def service(
        self,
        paths: list[str],
        how: options.Diagnosing,
        by: str = "",
        analyse_new: float | None = None,
        analyse_small: float = 0.0,
    ) -> Service:
        """Make the service of the applications at some paths."""
        from dataclasses import asdict

        from iqcar.apps.serve.cache import Cache, cache_folder
        from iqcar.apps.serve.listing import Places
        from iqcar.apps.serve.service import Service
        from iqcar.diagnosis import Settings
        from iqcar.model.queries.identify import checked_grouping

        places, kept = Places(paths), Cache(cache_folder(self.cache))
        settings = Settings(**asdict(how), by=checked_grouping(by) if by else "")
        service = Service(
            places=places,
            cache=kept,
            settings=settings,
            processes=self.processes,
            new_hours=analyse_new,
            small_mib=analyse_small,
            store=self.store,
        )
        if self.store:
            need(HISTORY)
            from iqcar.history.stored_files import open_store

            open_store(self.store).must_exist()
        return service


@command("Applications and reports in a browser.", writes=(), needs=SERVE)
def serve(
    paths: list[str],
    *,
    serving: Serving,
    port: int = 18480,
    token: str = "",
    analyse_new: float | None = None,
    analyse_small: float = 8.0,
    how: options.Diagnosing,
    by: str = "",
) -> None:
    """Show applications and their reports in a browser, and answer programs in JSON.

    Lists the applications whose event logs are in the given places, as the History Server does;
    small ones are analysed by themselves, others on request, alone or together with others that ran
    at the same time.
    Stops at Ctrl-C.

    Example: iqcar serve spark-events/

    Parameters
    ----------
    port : 0..65535
        Port to listen on; 0 chooses a free one.
    token : $IQCAR_SERVE_TOKEN
        Secret that browsers and programs must send; better given in the environment as
        IQCAR_SERVE_TOKEN. Generated where one is needed.
    analyse_new : HOURS 0..
        Analyse by itself each application that ended at most so many hours ago, one at a time,
        while nobody else waits for an analysis.
    analyse_small : MIB 0..
        Analyse by itself each finished application whose log is at most so large, likewise; 0 for
        only what is asked for.
    """
    from iqcar.apps.serve.server import address_of, listen, token_for
    from iqcar.apps.serve.server import serve as serve_until_stopped

    secret = token_for(serving.host, token)
    service = serving.service(paths, how, by, analyse_new, analyse_small)
    listening = listen(serving.host, port)
    service.listing.check()
    said = f"Serving {address_of(listening, serving.host, secret)}"
    serve_until_stopped(service, listening, serving.host, secret, lambda: typer.echo(said))
