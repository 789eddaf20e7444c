"""`scalefit laws`: the laws that have a name."""

import sys
from dataclasses import dataclass

from scalefit.cli.app import AsJson, command, print_json


@command("laws")
@dataclass(frozen=True)
class Laws:
    """List the laws that have a name: how to write them, their formula, their parameters, their source.

    Any of these names stands for its formula in --law; other laws are written in the same way.
    """

    as_json: AsJson = False

    def run(self) -> None:
        """Print them."""
        from scalefit.laws.law import Law
        from scalefit.laws.terms import NAMED_LAWS
        from scalefit.report.text import render

        entries = [
            {
                "name": named.name,
                "law": named.text,
                "formula": named.formula,
                "parameters": Law.parse(named.text).parameter_names,
                "source": named.source,
            }
            for named in NAMED_LAWS.values()
        ]
        if self.as_json:
            print_json(entries)
            return
        blocks = [
            f"{e['name']:20}--law '{e['law']}'\n    {e['formula']}\n    {', '.join(e['parameters'])}\n    {e['source']}"
            for e in entries
        ]
        sys.stdout.write(render("\n".join(blocks)))
