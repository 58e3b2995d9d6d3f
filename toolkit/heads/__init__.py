"""Attention sites, heads and head masks: the nouns that every other room speaks in."""

from __future__ import annotations

from headtool.heads.masks import HeadMask
from headtool.heads.sites import KINDS, AttentionSite, Head, Kind, Sites, head_name, parse_kinds

__all__ = [
    "KINDS",
    "AttentionSite",
    "Head",
    "HeadMask",
    "Kind",
    "Sites",
    "head_name",
    "parse_kinds",
]
