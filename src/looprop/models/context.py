"""A question about documents: the prompt that holds both, and where in it each document stands."""

from collections.abc import Mapping, Sequence

from looprop.errors import InputError
from looprop.models.layout import Part

WITH_TEMPLATE = "{documents}\n\n{question}"
"""The prompt of a chat model."""
WITHOUT_TEMPLATE = "{documents}\n\nQuestion: {question}\nAnswer:"
"""The prompt of a model without a chat template, which goes on where it ends."""


def context_prompt(
    documents: Sequence[str] | Mapping[str, str], question: str, template: str
) -> tuple[str, tuple[Part, ...]]:
    """The prompt, and the documents' places in it, by name: "document 1" and so on where they have none.

    >>> context_prompt(["Ada wrote.", "Bob read."], "Who?", "{documents} {question}")
    ('Ada wrote.\\n\\nBob read. Who?', (Part(name='document 1', start=0, stop=10), Part(name='document 2', start=12,
    stop=21)))
    """
    named = documents if isinstance(documents, Mapping) else {f"document {i}": d for i, d in enumerate(documents, 1)}
    if isinstance(documents, str) or not named or not all(isinstance(d, str) and d.strip() for d in named.values()):
        raise InputError("documents must be a list of texts, or texts by name, and none of them empty")
    if not isinstance(question, str) or not question.strip():
        raise InputError("the question must be a text, and not empty")
    for part in ("{documents}", "{question}"):
        if template.count(part) != 1:
            raise InputError(f"the template must hold {part} once, got {template!r}")
    question_first = template.index("{question}") < template.index("{documents}")
    before, _, after = template.partition("{documents}")
    before = before.replace("{question}", question) if question_first else before
    after = after if question_first else after.replace("{question}", question)
    parts, place = [], len(before)
    for name, document in named.items():
        parts.append(Part(str(name), place, place + len(document)))
        place += len(document) + len(_BETWEEN)
    return before + _BETWEEN.join(named.values()) + after, tuple(parts)


_BETWEEN = "\n\n"
