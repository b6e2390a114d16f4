"""One visual language for terminals, notebooks, pages and figures; everything here is made from plain data.

`colour` has the scale, `data` what is shown, `html`, `strips` and `tables` make pages and notebook output,
`terminal` makes rich renderables, `figures` makes matplotlib pictures.
"""
