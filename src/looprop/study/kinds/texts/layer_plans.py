"""CP-LRP in some layers and AttnLRP in the others, for every k: the methods of RQ3, by name."""


def first_layers(k: int) -> str:
    """CP-LRP in the layers 1 to k."""
    return f"lrp[cp=:{k}]"


def from_layer(k: int) -> str:
    """CP-LRP in the layers k to last."""
    return f"lrp[cp={k}:]"


def only_layer(k: int) -> str:
    """CP-LRP in layer k alone."""
    return f"lrp[cp={k}]"


def layer_plans(layers: int) -> tuple[str, ...]:
    """All of them, for a model of so many layers.

    >>> layer_plans(2)
    ('lrp[cp=:1]', 'lrp[cp=:2]', 'lrp[cp=1:]', 'lrp[cp=2:]', 'lrp[cp=1]', 'lrp[cp=2]')
    """
    every = range(1, layers + 1)
    return (*map(first_layers, every), *map(from_layer, every), *map(only_layer, every))
