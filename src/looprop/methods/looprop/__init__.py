"""The remedy: the leave-one-out effect itself, exact in a few rows, first order in the rest."""

from looprop.methods.looprop.method import LooProp as LooProp
