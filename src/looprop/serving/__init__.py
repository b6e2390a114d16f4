"""The explorer (`looprop serve`): a page that asks this machine, and nothing else, what a model does without a feature.

`guard.py` decides who may ask, `questions.py` what is asked, `worker.py` who computes and in which order, `app.py` ties
them to addresses. Needs the extra looprop[serve].
"""
