"""An answer and its prompt for the tests of the page: four documents, a question, a chat template, a matrix."""

from looprop.display.prompts import PromptView, Said, Section

HOSTILE = "</script><script>document.title='hacked'</script>"
DOCUMENTS = {
    "lighthouse.txt": "The lighthouse was built in 1889. It stands on a rock.\n\nKeepers left in 1974.",
    "<img src=x onerror=alert(1)>": f"Ferries run hourly.\u2028{HOSTILE} Bring a coat.",
    "weather.txt": "Storms come in May.\tMind the gulls.",
}
QUESTION = "When was the lighthouse built?"
SENTENCES = [
    "The lighthouse was built in 1889.",
    "It stands on a rock.",
    "Keepers left in 1974.",
    "Ferries run hourly.",
    f"{HOSTILE} Bring a coat.",
    "Storms come in May.",
    "Mind the gulls.",
]
SCORES = [
    [0.25, 0.5, 4.0],
    [0.0, -0.125, 0.25],
    [0.5, 0.25, -2.0],
    [0.0, 0.0, 0.125],
    [0.0, 1.0, 0.0],
    [0.125, 0.0, 0.0],
    [0.0, 0.0, -0.125],
]
TOKENS = [
    Said(" It", -0.5, [(" The", -1.0)]),
    Said(" <was>", -0.25, []),
    Said(" 1889", -0.125, [(" 1974", -3.0), ("\n", -4.0)]),
]


def example(*, by_token: bool = True) -> PromptView:
    """The whole of it."""
    before, after = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    asked = "\n\n".join(DOCUMENTS.values()) + "\n\n" + QUESTION
    text = before + asked + after
    documents, place = [], len(before)
    for name, document in DOCUMENTS.items():
        documents.append(Section(name, place, place + len(document)))
        place += len(document) + 2
    return PromptView(
        text=text,
        spans=[(text.index(sentence), text.index(sentence) + len(sentence)) for sentence in SENTENCES],
        names=SENTENCES,
        scores=SCORES if by_token else [[sum(row)] for row in SCORES],
        answer=TOKENS,
        turns=[Section("user", len(before), len(before) + len(asked))],
        documents=documents,
        facts=[("model", "tiny <b>"), ("method", "loo")],
        notes={3: "not opened: the score of its <document>"},
    )
