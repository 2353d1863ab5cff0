"""Follow a training while it runs: its log grows, is read again, and new values are shown.

`growing` notices that logs have grown and reads them, `state` computes what is shown, `lines` puts
it into words, `watcher` puts them together and decides when to stop.
"""
