"""Print what ``headtool methods`` says of the built-in methods, for ``methods/catalogue.json``."""

from __future__ import annotations

import dataclasses
import json

from headtool.methods import BUILTIN, get_method

print(json.dumps([dataclasses.asdict(get_method(name).described()) for name in BUILTIN], indent=1))
