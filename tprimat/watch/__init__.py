"""Follow a training while it runs: its log grows, is read again, and what is new is told.

`growing` says when logs have grown and reads them, `state` computes what is shown, `lines` puts it
into words, `watcher` puts them together and decides when to stop.
"""
