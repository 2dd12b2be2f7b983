"""The lab's nodes for pyinfra, as lab.yml beside this file tells them; copy both for your own."""

from inventories.groups import groups_of

globals().update(groups_of(__file__))
