"""`looprop serve`: the explorer, on this machine."""

from typing import Annotated

import typer

from looprop.cli import options
from looprop.cli.shell import command, load_bench, progress, say
from looprop.errors import InputError

Models = Annotated[
    list[str] | None, typer.Option("--model", metavar="NAME", help="A folder or a hub id; several stand side by side.")
]
Images = Annotated[
    list[str] | None,
    typer.Option("--image", metavar="FILE", help="A picture to choose in the page; more can be given there."),
]
Host = Annotated[str, typer.Option(help="Where to listen; anything but this machine itself lets others in.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]


@command
def serve(
    model: Models = None,
    image: Images = None,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    open_: Open = False,
    trust_remote_code: options.RemoteCode = False,
    debug: options.Debug = False,
) -> None:
    """Explore a model in a page: strike out any feature and see what it really does.

    Only this machine can ask, and only with the token in the address that is printed. Ctrl-C ends it.
    """
    try:
        import PIL
        import starlette
        import uvicorn
    except ImportError as error:
        raise InputError("looprop serve needs more packages: pip install 'looprop[serve]'") from error
    del PIL, starlette, uvicorn
    from looprop.serving.guard import address_to_open, bound_socket, is_loopback, new_token

    if not is_loopback(host):
        say(
            f"looprop: warning: {host} can be reached from other machines. Whoever has the token can put work on this "
            "one and read what is typed; nothing is encrypted. Better: keep 127.0.0.1 and use ssh -L."
        )
    with bound_socket(host, port) as listening:
        with progress("loading the model"):
            from looprop.serving.app import Explorer, run
            from looprop.serving.export import EMBEDDED

            wanted: list[str | None] = list(model or []) or [None]
            benches = {name or EMBEDDED: load_bench(name, trust_remote_code=trust_remote_code) for name in wanted}
            explorer = Explorer(benches, token=new_token(), images=image or (), trusted=trust_remote_code)
        address = address_to_open(host, listening.getsockname()[1], explorer.token)
        say(f"looprop: {address}")
        say("looprop: Ctrl-C ends it")
        if open_:
            typer.launch(address)
        run(explorer, listening, host, debug=debug)
    say("looprop: ended")
