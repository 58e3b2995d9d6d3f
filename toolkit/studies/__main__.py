"""``python -m headtool.studies``: print the JSON schema of study files."""

import json

from headtool.studies.spec import json_schema

print(json.dumps(json_schema(), indent=1))
