"""The checks of a site: commands whose output on a node is judged."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictFloat, model_validator
from typing_extensions import Self

from gpu_node.inventories.errors import Wrong
from gpu_node.inventories.fields.kinds import Name, Switch, matching
from gpu_node.inventories.fields.paths import filled
from gpu_node.inventories.fields.switched import Reason
from gpu_node.inventories.model import Model

_MOST = 20
_LONGEST = 1000
OwnCommand = Annotated[
    str,
    matching(rf"(?=.{{1,{_LONGEST}}}\Z)[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*"),
    Field(
        examples=["cat /opt/licence/version"],
        description=f"one line of sh, at most {_LONGEST} characters",
    ),
]
Text = Annotated[
    str,
    matching(r"[^\x00-\x1f]{0,200}"),
    Field(examples=["7.2"], description="one line of text, at most 200 characters"),
]
Number = Annotated[
    StrictFloat,
    Field(allow_inf_nan=False, examples=[5], description="a number, without quotes"),
]


class OwnCheck(Model):
    """A command, and what it is to print; it must end with exit code 0 in any case."""

    name: Name = Field(examples=["licence"], title="the name of the check")
    command: OwnCommand = Field(
        title="what runs on the node, as the training user, for at most 10 seconds"
    )
    root: Switch | None = Field(default=None, title="whether root runs it")
    equals: Text | None = Field(default=None, title="what it prints")
    one_of: (
        Annotated[
            tuple[Text, ...],
            BeforeValidator(filled),
            Field(examples=[["7.2", "7.3"]], description='a list of texts, such as ["7.2", "7.3"]'),
        ]
        | None
    ) = Field(default=None, title="it prints one of these")
    at_least: Number | None = Field(default=None, title="it prints a number, at least this one")
    at_most: Number | None = Field(default=None, title="it prints a number, at most this one")
    same: (
        Annotated[
            Literal["everywhere", "per-model"],
            Field(examples=["everywhere"], description="everywhere or per-model"),
        ]
        | None
    ) = Field(
        default=None, title="the nodes that must print the same: all, or those of a GPU model"
    )
    severity: Annotated[
        Literal["error", "warning", "info"],
        Field(examples=["warning"], description="error, warning or info"),
    ] = Field(default="warning", title="the severity of its finding")
    why: Reason | None = Field(default=None, title="what is wrong then: the cause of its finding")
    fix: Reason | None = Field(default=None, title="what to do then: the advice of its finding")

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        if self.equals is not None and self.one_of is not None:
            raise Wrong("it has equals and one_of", "remove one of them")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise Wrong("at_least is above at_most", "correct one of them")
        return self


def _each_once(checks: tuple[OwnCheck, ...]) -> tuple[OwnCheck, ...]:
    if len({each.name for each in checks}) < len(checks):
        raise ValueError("two checks have one name")
    if len(checks) > _MOST:
        raise ValueError(f"{len(checks)} checks")
    return checks


OwnChecks = Annotated[
    tuple[OwnCheck, ...],
    BeforeValidator(filled),
    AfterValidator(_each_once),
    Field(
        examples=[[{"name": "licence", "command": "cat /opt/licence/version", "equals": "7.2"}]],
        description=f"a list of at most {_MOST}, such as [{{name: licence, command: cat "
        '/opt/licence/version, equals: "7.2"}]',
        title="checks of your own: what a command prints on the node",
    ),
]
