"""The rows of a sequence from which the answer is read, found at the model's last attention site."""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class AnswerRows:
    """The `first` so many rows (a class token), the `last` so many (a decoder), some `inside`, or, without any of
    these, all (a mean): everything.
    """

    first: int = 0
    last: int = 0
    inside: tuple[int, ...] = ()
    everything: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "everything", not (self.first or self.last or self.inside))

    def rows(self, length: int) -> list[int]:
        """Their numbers in a sequence of some length.

        >>> AnswerRows(first=1).rows(5), AnswerRows(last=2).rows(5), AnswerRows().rows(3)
        ([0], [3, 4], [0, 1, 2])
        """
        if self.everything:
            return list(range(length))
        return list(self.inside) or [*range(self.first), *range(length - self.last, length)]


FIRST_ROW = AnswerRows(first=1)
"""A class token at the beginning; also what is taken if nothing is known."""


def answer_rows_of(gradient: Tensor) -> AnswerRows:
    """From the gradient of an answer at the output of the last attention site (H, T, d): what is not read has none.

    >>> import torch
    >>> gradients = ([0.0, 0.0, 2.0], [0.0, 2.0, 0.0], [1.0, 2.0, 3.0])
    >>> [answer_rows_of(torch.tensor(rows)[None, :, None]).rows(3) for rows in gradients]
    [[2], [1], [0, 1, 2]]
    """
    length = gradient.shape[1]
    read = gradient.ne(0).any(2).any(0).nonzero()[:, 0].tolist()
    if len(read) in (0, length):
        return AnswerRows()
    if read == list(range(len(read))):
        return AnswerRows(first=len(read))
    if read == list(range(length - len(read), length)):
        return AnswerRows(last=len(read))
    return AnswerRows(inside=tuple(read))
