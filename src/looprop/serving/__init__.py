"""The explorer (`looprop serve`): a page that asks this machine, and nothing else, what a model does without a feature.

`guard.py` controls access, `requests.py` checks questions, `worker.py` computes one thing at a time, `app.py` ties
them to addresses. Needs the extra looprop[serve].
"""
