"""Reads HTML strictly: what is open must be closed, in order."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "source", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Tags, attributes and texts of a page; ``faults`` are tags that do not match."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.tags, self.attributes, self.found = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append((tag, []))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.faults.append(f"</{tag}> inside {[own for own, _ in self.open]}")
            return
        self.found.append((tag, "".join(self.open.pop()[1])))

    def handle_data(self, data):
        for _, parts in self.open:
            parts.append(data)

    def texts(self, tag):
        """The text inside each such tag."""
        return [text for own, text in self.found if own == tag]


def parse(html):
    page = Page()
    page.feed(html)
    page.close()
    assert page.faults == [] and page.open == []
    return page
