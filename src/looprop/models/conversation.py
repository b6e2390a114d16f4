"""A conversation as a model takes it, rendered by its own chat template, and a question about documents: the text, and
where in it each turn and each document stands.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from looprop.errors import InputError
from looprop.models.encoded import check_text
from looprop.models.layout import Layout, Part

Messages = Sequence[Mapping[str, str]]
"""Turns as chat templates take them: {"role": "user", "content": "..."}."""


def laid_out(tokenizer: Any, prompt: str | Messages, system: str | None = None) -> tuple[str, Layout]:
    """The text of a prompt or of messages in the model's own chat template, and its parts; a prompt as it is where the
    model has none.

    The text, encoded in the ordinary way, gives exactly the tokens of the template: a template begins with the token
    that the tokenizer would put there again. Characters are counted from the beginning of a prompt, and of the whole
    text where messages were given.
    """
    turns = _turns(prompt, system)
    if not getattr(tokenizer, "chat_template", None):
        if len(turns) > 1:
            what = "a system turn" if system else "a conversation of several turns"
            raise InputError(f"{what} needs a model with a chat template, and this one has none")
        text = turns[0]["content"]
        return text, Layout((Part(turns[0]["role"], 0, len(text)),))
    rendered = _rendered(tokenizer, turns)
    text = _as_encoded(tokenizer, rendered)
    parts = _parts(tokenizer, rendered, turns)
    shift = len(text) - len(rendered)  # a beginning of sequence that the tokenizer puts there itself
    moved = tuple(Part(part.name, part.start + shift, part.stop + shift) for part in parts)
    start = 0
    if moved and isinstance(prompt, str):
        stripped = moved[-1].stop - moved[-1].start < len(prompt)
        start = moved[-1].start - (len(prompt) - len(prompt.lstrip()) if stripped else 0)
    return text, Layout(moved, framed=bool(moved), counted_from=start)


def _turns(prompt: str | Messages, system: str | None) -> list[dict[str, str]]:
    if isinstance(prompt, str):
        messages: list[Any] = [{"role": "user", "content": prompt}]
    elif isinstance(prompt, Sequence) and prompt:
        messages = list(prompt)
    else:
        raise InputError(f"a prompt must be a text or a list of messages, got {type(prompt).__name__}")
    if system:
        messages.insert(0, {"role": "system", "content": system})
    for message in messages:
        if not isinstance(message, Mapping) or not all(isinstance(message.get(k), str) for k in ("role", "content")):
            raise InputError(f"a message must be {{'role': ..., 'content': a text}}, got {repr(message)[:80]}")
        check_text(message["content"], "a prompt")
    if messages[-1]["role"] == "assistant":
        raise InputError("the last message is the assistant's: give what it said as answer=...")
    return [dict(message) for message in messages]


def _rendered(tokenizer: Any, turns: list[dict[str, str]]) -> str:
    try:
        text: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs of their own and raise what they like
        raise InputError(f"the model's chat template does not take this: {error}") from error
    return text


def _as_encoded(tokenizer: Any, rendered: str) -> str:
    wanted = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    first = getattr(tokenizer, "bos_token", None) or ""
    for text in (rendered, rendered.removeprefix(first)):
        if tokenizer(text)["input_ids"] == wanted:
            return text
    raise InputError(
        "this tokenizer adds tokens that the chat template does not have: give the prompt without the template"
    )


def _parts(tokenizer: Any, rendered: str, turns: list[dict[str, str]]) -> tuple[Part, ...]:
    """Where each turn stands in the rendered text: found by rendering placeholders, and believed where what stands
    around them, put together with the turns, is the text itself. None where a template does more with its turns.
    """
    marks = [f"\u2402{number}\u2403" for number in range(len(turns))]
    try:
        frame = _rendered(tokenizer, [{**turn, "content": mark} for turn, mark in zip(turns, marks, strict=True)])
    except InputError:
        return ()
    if any(frame.count(mark) != 1 for mark in marks):
        return ()
    place, parts = 0, []
    for turn, mark in zip(turns, marks, strict=True):
        before, _, frame = frame.partition(mark)
        # Many templates strip what they are given.
        forms = (turn["content"], turn["content"].strip())
        said = next((form for form in forms if rendered.startswith(before + form, place)), None)
        if said is None:
            return ()
        parts.append(Part(turn["role"], place + len(before), place + len(before) + len(said)))
        place = parts[-1].stop
    return tuple(parts) if rendered[place:] == frame else ()


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
