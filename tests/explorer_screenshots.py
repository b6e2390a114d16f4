"""Takes the pictures of docs/how-to/explorer.md: `python tests/explorer_screenshots.py`, some minutes on two cores.

The Vision Transformer is a small one, trained here on MNIST (LOOPROP_DATA); the language model is smollm2-135m. Which
digit is shown is not chosen by hand: of the first hundred of the test set, the one to which a single patch means most.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from PIL import Image

import looprop
from browser import Browser
from looprop.inputs import load_mnist
from looprop.serving.app import Explorer
from looprop.serving.guard import address_of, new_token
from serving.conftest import serving

IMAGES = Path(__file__).parents[1] / "docs" / "images"
REVIEW = "Slow at first, but the acting is superb and the ending is not bad at all."
OTHER = "Slow at first, but the acting is superb and the ending is bad."
PROMPT = (
    "The museum is closed on Mondays. The lighthouse was built in 1889. The last ferry leaves from pier 3. "
    "When was the lighthouse built?"
)
STEPS, BATCH = 2500, 64
LOOKED_AT = 100  # test digits


def question(model: str, **changes: Any) -> dict[str, Any]:
    usual = {"text": "", "image": "", "target": "", "features": "word", "answer": 0, "part": ""}
    return {"model": model, **usual, **changes}


def train_vit(folder: Path) -> None:
    """A ViT of 49 patches on digits; what is black is zero, so that a patch without pixels is one without ink."""
    torch.manual_seed(0)
    config = hf.ViTConfig(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128, image_size=28, patch_size=4,
        num_labels=10, id2label={i: str(i) for i in range(10)}, label2id={str(i): i for i in range(10)},
    )  # fmt: skip
    model = hf.ViTForImageClassification(config)
    digits = load_mnist("train")
    pixels = torch.from_numpy(digits.images.copy()).float()[:, None].expand(-1, 3, -1, -1) / 255
    labels = torch.from_numpy(digits.labels.copy()).long()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=STEPS)
    for step in range(STEPS):
        which = torch.randint(len(labels), (BATCH,))
        loss = model(pixel_values=pixels[which], labels=labels[which]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.3f}", flush=True)
    model.eval().save_pretrained(folder)
    plain = {"image_mean": [0.0] * 3, "image_std": [1.0] * 3, "size": {"height": 28, "width": 28}}
    hf.ViTImageProcessorPil(**plain).save_pretrained(folder)


def telling_digit(bench: looprop.Workbench, path: Path) -> None:
    """Writes the digit whose likeliest class loses most by one patch."""
    digits = load_mnist("test")
    pictures = [Image.fromarray(image).convert("RGB") for image in digits.images[:LOOKED_AT]]
    found = [bench.explain(picture, "loo") for picture in pictures]
    right = [e.label == str(label) for e, label in zip(found, digits.labels, strict=False)]
    print(f"{sum(right)} of {LOOKED_AT} digits right")
    best = max((n for n in range(LOOKED_AT) if right[n]), key=lambda n: found[n].scores.max())
    pictures[best].save(path)


def shoot(
    browser: Browser,
    address: str,
    name: str,
    asked: list[dict[str, Any]],
    *,
    before: str = "",
    dark: bool = False,
    width: int = 1280,
    height: int = 800,
) -> None:
    """One picture of some questions with what is struck out of them."""
    browser.open(address, dark=dark, width=width, height=height)
    browser.evaluate("document.documentElement.style.scrollbarWidth = 'none'")
    browser.wait("page.panels.length > 0")
    browser.evaluate(f"follow({json.dumps(asked)})")
    idle = "page.panels.every(p => p.root.dataset.state === 'idle')"
    browser.wait(idle)
    if before:
        browser.evaluate(before)
        browser.wait(idle)
    browser.evaluate("new Promise(done => setTimeout(done, 500))")  # bars come to rest
    if browser.errors:
        sys.exit(f"{name}: {browser.errors}")
    browser.screenshot(IMAGES / f"{name}.png")


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium on this machine")
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as own:
        folder = given or Path(own)
        vit = folder / "digits-vit"
        if not vit.is_dir():
            train_vit(vit)
        benches = {"embedded": looprop.load(), "smollm2-135m": looprop.load("smollm2-135m")}
        benches["digits-vit"] = looprop.load(str(vit))
        telling_digit(benches["digits-vit"], folder / "digit.png")
        explorer = Explorer(benches, token=new_token(), images=[str(folder / "digit.png")])
        with serving(explorer) as port, Browser(chromium) as browser:
            take(browser, address_of("127.0.0.1", port, explorer.token), str(folder / "digit.png"))


def part_of_answer(wanted: str) -> str:
    """The tokens of the answer that say something, as the page has them."""
    answer = looprop.load("smollm2-135m").answer(PROMPT, max_new_tokens=16)
    start = answer.text.index(wanted)
    return ":".join(map(str, answer[f"{start}:{start + len(wanted)}"].part))


def take(browser: Browser, address: str, digit: str) -> None:
    review = question("embedded", text=REVIEW)
    names = looprop.load().explain(REVIEW, "cp-lrp", features="word").features
    struck = [names.index("not"), names.index("bad")]
    shapley = "(p => { p.methods.push('shapley'); return p.explain(['shapley']); })(page.panels[0])"
    shoot(browser, address, "explorer", [{"question": review, "struck": struck}], before=shapley, height=930)
    dark = {"dark": True, "height": 930, "before": shapley}
    shoot(browser, address, "explorer-dark", [{"question": review, "struck": struck}], **dark)
    shoot(browser, address, "explorer-narrow", [{"question": review, "struck": struck[:1]}], width=400, height=1100)
    both = [{"question": question("embedded", text=text), "struck": []} for text in (REVIEW, OTHER)]
    shoot(browser, address, "explorer-two", both, height=900)
    prompt = question("smollm2-135m", text=PROMPT, features="sentence", answer=16, part=part_of_answer("1889"))
    shoot(browser, address, "explorer-prompt", [{"question": prompt, "struck": [1]}], height=930)
    image = question("digits-vit", image=digit, features="token")
    best = "(p => { const s = p.scores.get('loo').scores; p.strike(s.indexOf(Math.max(...s))); })(page.panels[0])"
    shoot(browser, address, "explorer-image", [{"question": image, "struck": []}], before=best, height=1110)


if __name__ == "__main__":
    main()
