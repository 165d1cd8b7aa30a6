"""The search of the built site, as Sphinx's ``searchtools.js`` and our scorer rank pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sphinx.search.en import SearchEnglish

from tests.pages.steps import ROOT

SCORER = ROOT / "docs" / "static" / "scorer.js"
TERM, TITLE, PARTIAL_TERM, PARTIAL_TITLE = 5, 15, 2, 7
"""Scores of ``searchtools.js``: a word of the text, of a heading, and a part of either."""
SHORT = 3
"""Words with fewer letters are not searched for as parts of others."""


class SiteSearch:
    """The index of a built site."""

    def __init__(self, site: Path) -> None:
        """Read the index of a site.

        Args:
            site: The folder with ``searchindex.js``.
        """
        self.site = site
        text = (site / "searchindex.js").read_text(encoding="utf-8").strip()
        self._index: dict[str, Any] = json.loads(
            text.removeprefix("Search.setIndex(").removesuffix(")")
        )
        self._language = SearchEnglish({})
        (self._developers,) = re.findall(r"DEVELOPERS = /(.*)/;", SCORER.read_text("utf-8"))

    def pages(self, query: str) -> list[str]:
        """Return the pages that a query finds, best first.

        Args:
            query: What a reader types into the search field.
        """
        scores = self._by_titles(query.lower())
        for number, score in self._by_words(query).items():
            scores[number] = max(score, scores.get(number, 0))
        titles, names = self._index["titles"], self._index["docnames"]
        for number in scores:
            scores[number] -= 100 if re.search(self._developers, names[number]) else 0
        ranked = sorted(scores, key=lambda one: (-scores[one], titles[one].lower()))
        return [names[one] for one in ranked]

    def _by_titles(self, query: str) -> dict[int, float]:
        scores: dict[int, float] = {}
        for title, found in self._index["alltitles"].items():
            if query in title.lower() and len(query) >= len(title) / 2:
                for number, _ in found:
                    score = round(TITLE * len(query) / len(title))
                    score += self._index["titles"][number] == title
                    scores[number] = max(score, scores.get(number, 0))
        return scores

    def _by_words(self, query: str) -> dict[int, float]:
        words = {
            self._language.stem(word)
            for word in re.findall(r"\w+", query.lower())
            if word not in self._language.stopwords
        }
        found = [self._with_word(word) for word in words]
        everywhere = set.intersection(*(set(scores) for scores in found)) if found else set()
        return {number: max(scores[number] for scores in found) for number in everywhere}

    def _with_word(self, word: str) -> dict[int, float]:
        scores: dict[int, float] = {}
        for index, whole, part in (
            ("terms", TERM, PARTIAL_TERM),
            ("titleterms", TITLE, PARTIAL_TITLE),
        ):
            terms = self._index[index]
            matches: Iterable[tuple[Any, int]] = [(terms[word], whole)] if word in terms else ()
            if word not in terms and len(word) >= SHORT:
                matches = [(terms[term], part) for term in terms if word in term]
            for numbers, score in matches:
                for number in numbers if isinstance(numbers, list) else [numbers]:
                    scores[number] = score
        return scores
