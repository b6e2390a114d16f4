"""The socket of the explorer, opened before models are loaded, so that a port in use is reported at once."""

import socket

from looprop.errors import InputError
from looprop.serving.guard import is_everything, names_of_this_machine


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen()  # whoever opens the address before the models are loaded waits, and is not turned away
    except OSError as error:
        found.close()
        said = error.strerror or str(error)
        raise InputError(f"cannot listen on {host}:{port}: {said}; --port 0 takes a free one") from error
    return found


def address_of(host: str, port: int, token: str) -> str:
    """The address that a browser opens.

    >>> address_of("127.0.0.1", 8765, "abc")
    'http://127.0.0.1:8765/?token=abc'
    """
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/?token={token}"


def address_to_open(host: str, port: int, token: str) -> str:
    """The address to print: of a server on all addresses the machine's own name stands for it."""
    return address_of(names_of_this_machine()[0] if is_everything(host) else host, port, token)
