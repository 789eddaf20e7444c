"""YAML text to the values that JSON may hold; needs PyYAML."""

from __future__ import annotations

from typing import Any

from scalefit.errors import DataError, MissingExtraError

__all__ = ["read_yaml"]


def read_yaml(text: str, name: str) -> Any:
    """Read one YAML document, or several, each one record.

    Raises
    ------
    DataError
        If it is no YAML, repeats a key, or refers to its own parts (a short file could unfold to a huge one).
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("pyyaml", "reading YAML", "yaml") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses what would lose a value or unfold without bound."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                line = self.peek_event().start_mark.line + 1
                raise DataError(f"line {line} of {name} refers to another part (*name); write it out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [str(self.construct_object(key, deep=True)) for key, _ in node.value]
            if len(set(keys)) < len(keys):
                twice = next(key for key in keys if keys.count(key) > 1)
                raise DataError(f"{name}: the key {twice!r} occurs twice in one object; rename one")
            return {str(key): value for key, value in super().construct_mapping(node, deep).items()}

    try:
        documents = [document for document in yaml.load_all(text, Loader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} of {name}" if mark is not None else name
        raise DataError(f"{where} is not YAML: {getattr(error, 'problem', None) or 'unreadable'}; mend it") from None
    except (ValueError, RecursionError):
        raise DataError(f"{name} is nested too deeply or holds a value that is none") from None
    if not documents:
        raise DataError(f"{name} is empty; export the runs again")
    return documents[0] if len(documents) == 1 else documents
