"""One list of what every bridge of this person asks on this machine, and the way to each question.

`register` and what it loads are a bridge's own side, `bridges` and `site` the inbox's; they meet in
`places` and `open_question`. The room leads to the page and never answers anything itself.
"""
