"""Several explanations: methods on the same text side by side, texts below each other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from looprop.display.strips import View, comparison_fragment, comparison_page
from looprop.errors import DataError
from looprop.files import check_schema
from looprop.result.base import Result
from looprop.result.explanation import Explanation
from looprop.result.pairs import cards_of
from looprop.result.views import compared, cut_said, nothing_matters, other_removal, shortened, target_said
from looprop.result.writers import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Explanations(list[Explanation], Result):
    """A list of explanations; in a notebook it shows itself as a comparison, methods on the same text side by side."""

    SCHEMA = "looprop.explanations"

    def views(self) -> list[list[View]]:
        """What is shown: explanations of one text together, each with its r to leave-one-out and to
        the Shapley value where those are among them.
        """
        groups: dict[tuple[Any, ...], list[Explanation]] = {}
        for explanation in self:
            groups.setdefault(_input(explanation), []).append(explanation)
        return [compared(group, models=len({e.model for e in self}) > 1) for group in groups.values()]

    def notes(self) -> list[str]:
        """What a reader of the comparison must know."""
        said = []
        if nothing_matters(self):
            said.append("No single feature matters here by itself: r to leave-one-out is made of noise.")
        said += dict.fromkeys(told for e in self if (told := cut_said(e)))
        said += [told for e in self if (told := other_removal(e, [o for o in self if _input(o) == _input(e)]))]
        return said

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"schema": self.SCHEMA, "version": self.VERSION, "explanations": [e.to_dict() for e in self]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **apart: Any) -> Self:
        """The inverse of `to_dict`."""
        check_schema(data, cls.SCHEMA, cls.VERSION)
        if not isinstance(data.get("explanations"), list):
            raise DataError("a list of explanations lacks 'explanations'")
        return cls(map(Explanation.from_dict, data["explanations"]), **apart)

    def records(self) -> list[Record]:
        """The rows of all explanations, with the number of the explanation and its method in front."""
        return [{"explanation": i, "method": e.method, **row} for i, e in enumerate(self) for row in e.records()]

    def page(self) -> str:
        """A page of HTML."""
        texts, models = self._each("text"), self._each("model")
        text = shortened(texts[0]) if len(texts) == 1 else f"{len(texts)} texts"
        subtitle = ": ".join(filter(None, (", ".join(filter(None, models)), text)))
        more = cards_of([e.details for e in self])
        return comparison_page(self._title(), self.views(), notes=self.notes(), subtitle=subtitle, more=more)

    def figure(self) -> "Figure":
        """The texts in colour, methods below each other, as a matplotlib picture."""
        from looprop.display.figures import comparison_figure

        return comparison_figure([view.tokens for views in self.views() for view in views], title=self._title())

    def _title(self) -> str:
        labels, methods = list(dict.fromkeys(map(target_said, self))), self._each("method")
        title = ", ".join(labels) if len(labels) <= 3 else f"{len(labels)} targets"
        return f"{title}, by " + (", ".join(methods) if len(methods) <= 4 else f"{len(methods)} methods")

    def _each(self, name: str) -> list[str]:
        return list(dict.fromkeys(getattr(e, name) for e in self))

    def _repr_html_(self) -> str:
        return comparison_fragment(self.views(), notes=self.notes(), plain="\n".join(map(repr, self)))


def _input(e: Explanation) -> tuple[Any, ...]:
    """What explanations of the same input have in common."""
    picture = e.details.get("picture")
    return e.text, tuple(e.features), picture.get("png") if isinstance(picture, Mapping) else None
