"""The recipes of the models that looprop ships or studies. Nothing in the package imports from here."""
