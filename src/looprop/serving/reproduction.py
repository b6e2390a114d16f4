"""The Python lines that give the numbers of a page again."""

from collections.abc import Sequence

from looprop.serving.asked import features_of, target_of
from looprop.serving.questions import Question
from looprop.workbench import Workbench

EMBEDDED = "embedded"
"""The name of the model that comes with the package."""


def python_lines(
    question: Question,
    bench: Workbench,
    methods: Sequence[str],
    struck: Sequence[int] = (),
    *,
    uploaded: bool = False,
    trusted: bool = False,
) -> str:
    """A program that ends with `explanations` and, where something is struck out, with `change`.

    uploaded: the image came from the page, and its file is the reader's. trusted: the model may run its own code.
    """
    loaded = "" if question.model == EMBEDDED else repr(question.model)
    if trusted:
        loaded += ", trust_remote_code=True" if loaded else "trust_remote_code=True"
    imports = ["import looprop"]
    options = [f"features={features_of(question)!r}"]
    if question.image:
        imports.append("from PIL import Image")
        note = "  # the file that was given to the page" if uploaded else ""
        item = [f"item = Image.open({question.image!r}).convert('RGB'){note}"]
    elif question.answer:
        part = f"[{question.part}]" if question.part else ""
        item = [f"item = model.answer({question.text!r}, max_new_tokens={question.answer}){part}"]
    else:
        item = [f"item = {question.text!r}"]
    target = None if question.answer else target_of(bench, question)
    if target is not None:
        options.append(f"target={target!r}")
    given = ", ".join(options)
    names = ", ".join(map(repr, methods))
    lines = [
        f"model = looprop.load({loaded})",
        *item,
        f"explanations = looprop.Explanations(model.explain(item, name, {given}) for name in [{names}])",
    ]
    if struck:
        imports.insert(0, "import numpy as np")
        lines += [
            f"value = model.set_function(item, {given})",
            "keep = np.ones((2, len(explanations[0].features)), dtype=bool)",
            f"keep[1, {sorted(struck)!r}] = False",
            "change = float(np.diff(value(keep))[0])",
        ]
        if question.answer:
            without = ", ".join(map(str, sorted(struck)))
            lines.append(f"print(item.without({without}, features={question.features!r}).text)")
    return "\n".join([*imports, "", *lines, ""])
