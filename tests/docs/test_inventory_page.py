"""docs/inventory.md lists every key of a cluster file, as the models check it."""

from docs import inventory
from gpu_node.inventories.keys import keys_of
from gpu_node.inventories.schema import HostEntry


def test_the_page_is_current() -> None:
    """`python docs/inventory.py` writes it again."""
    assert inventory.PAGE.read_text(encoding="utf-8") == inventory.page()


def test_every_key_is_described() -> None:
    """Without a title a key has an empty cell: give its field Field(title=...)."""
    assert [key.path for key in keys_of(HostEntry) if not key.does] == []
    assert all(key.allowed for key in keys_of(HostEntry))
