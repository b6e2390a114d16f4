"""The site: `python -m website` builds how-tos, findings, benchmarks, the API reference and a gallery into build/site.

`places.py` says where each file of the repository stands on the site, `staging.py` puts it there, `reference.py` writes
a page per public room, `docstrings.py` turns our docstrings into reStructuredText, `gallery.py` makes real pages,
`checking.py` follows every link of what was built.
"""
