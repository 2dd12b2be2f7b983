"""pyinfra's SSH client, as strict as ssh with StrictHostKeyChecking=yes and ForwardAgent=no.

Each jump host of a ProxyJump is reached by a client like this one: pyinfra's own makes one that
asks about an unknown key, or accepts it, and knows no limits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from paramiko import Channel, ChannelException, ProxyCommand, SSHException, Transport
from paramiko.agent import AgentKey
from pyinfra.connectors.sshuserclient import client
from typing_extensions import override

from gpu_node.inventories.connection.handshake import PinnedFirst, Pins, Strict
from gpu_node.inventories.connection.ssh_config import destination, parsed, settings
from gpu_node.inventories.connection.transport import cut
from gpu_node.inventories.errors import reason

_KNOWN_HOSTS = "~/.ssh/known_hosts"
_MOST_HOPS = 8


class RefusedJumpHost(SSHException):
    """A jump host that cannot be reached, believed or logged in to; str() says what to do."""


class Client(client.SSHClient):
    """A client that believes what known_hosts has, and whose connections have limits.

    `depth` is of how many other clients this one is a jump host.
    """

    def __init__(self, depth: int = 0) -> None:
        super().__init__()
        self._depth = depth
        self._hops: list[Client] = []
        self._known: tuple[str, ...] = ()

    @override
    def connect(  # type: ignore[override]
        self,
        hostname: str,
        _pyinfra_ssh_forward_agent: object = None,
        _pyinfra_ssh_config_file: str | None = None,
        _pyinfra_ssh_known_hosts_file: str | None = None,
        _pyinfra_ssh_strict_host_key_checking: object = None,
        _pyinfra_ssh_paramiko_connect_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Connect as pyinfra's client does; whether an agent is forwarded is not an option."""
        file = _pyinfra_ssh_known_hosts_file
        self._known = (os.path.expanduser(file),) if file else ()
        given = _pyinfra_ssh_paramiko_connect_kwargs or {}
        super().connect(  # type: ignore[no-untyped-call]
            hostname,
            _pyinfra_ssh_forward_agent=False,
            _pyinfra_ssh_config_file=_pyinfra_ssh_config_file,
            _pyinfra_ssh_paramiko_connect_kwargs={"transport_factory": self._begin, **given},
            **options,
        )

    @override
    def parse_config(
        self,
        hostname: str,
        initial_cfg: Mapping[str, Any] | None = None,
        ssh_config_file: str | None = None,
        strict_host_key_checking: object = None,
    ) -> tuple[str, dict[str, Any], bool, Strict, tuple[str, ...], int, str | None]:
        """Return what pyinfra's own method does, for a connection with the options `initial_cfg`.

        They come before ssh_config. pyinfra gets no known_hosts files: it would read all of them.
        """
        options = settings(hostname, ssh_config_file)
        host = options.get("hostname", hostname)
        config: dict[str, Any] = {"port": int(options.get("port", 22))}
        config |= {"username": options["user"]} if "user" in options else {}
        if "connecttimeout" in options:
            config["timeout"] = int(options["connecttimeout"])
        config |= initial_cfg or {}
        if "identityfile" in options and "pkey" not in config:
            config["key_filename"] = options["identityfile"]
            client._attach_identity_with_certificate(config, options)
        if "sock" not in config and (proxy := self._proxy(host, config, options, ssh_config_file)):
            config["sock"] = proxy
        written = options.get("userknownhostsfile", _KNOWN_HOSTS).split()
        self._known = self._known or tuple(map(os.path.expanduser, written))
        agent = options.get("identityagent", "none")
        return (
            host,
            config,
            False,
            Strict(),
            (),
            int(options.get("serveraliveinterval", 0)),
            os.path.expanduser(agent) if agent.lower() != "none" else None,
        )

    def _proxy(
        self, host: str, config: Mapping[str, Any], options: Mapping[str, Any], file: str | None
    ) -> ProxyCommand | Channel | None:
        """Return the way to a host that ssh_config names; None where it names none."""
        if "proxycommand" in options:
            return ProxyCommand(options["proxycommand"])
        hops = options.get("proxyjump", "none")
        if hops.lower() == "none":
            return None
        return self._through(hops.split(","), (host, config["port"]), file, config.get("timeout"))

    def _through(
        self, hops: Sequence[str], target: tuple[str, int], file: str | None, timeout: float | None
    ) -> Channel | None:
        """Return a channel to a host and port through jump hosts, the nearest one first.

        Raises RefusedJumpHost.
        """
        config = parsed(file)
        ways = [self.derive_shorthand(config, hop) for hop in hops]  # type: ignore[no-untyped-call]
        ends = [(destination(name, file)[0], int(way["port"])) for name, way in ways[1:]]
        channel = None
        for (name, way), end in zip(ways, [*ends, target], strict=True):
            options = {"timeout": timeout, **way, "port": int(way["port"])}
            hop = Client(self._depth + 1)
            self._hops.append(hop)
            try:
                if self._depth + len(self._hops) > _MOST_HOPS:
                    raise SSHException(f"more than {_MOST_HOPS} jump hosts, or one leads to itself")
                hop.connect(
                    name,
                    _pyinfra_ssh_config_file=file,
                    **options,
                    **({"sock": channel} if channel else {}),
                )
                channel = hop.gateway(  # type: ignore[no-untyped-call]
                    *target, *end, timeout=timeout
                )
            except RefusedJumpHost:
                raise
            except ChannelException as error:
                raise RefusedJumpHost(
                    f"the jump host {name} does not reach {end[0]}:{end[1]}: {error.text}; see on "
                    "it whether that address answers, and whether its sshd has AllowTcpForwarding"
                ) from error
            except SSHException as error:
                raise RefusedJumpHost(
                    f"the jump host {name}: {error}; log in to it once with ssh, and compare the "
                    "fingerprint that it shows with the one on its console; then run this again"
                ) from error
            except (OSError, EOFError) as error:
                why = reason(error) if isinstance(error, OSError) else "it closed the connection"
                raise RefusedJumpHost(
                    f"the jump host {name}: {why}; correct ProxyJump or HostName in ssh's "
                    "configuration, or see why it does not answer"
                ) from error
        return channel

    def agent_keys(self) -> list[AgentKey]:
        """Return the keys of the agent that the last login asked; they sign while it is open."""
        agent = self._agent  # type: ignore[attr-defined]
        return list(agent.get_keys()) if agent else []

    def cut(self) -> None:
        """End the connection without a word, and those to its jump hosts, also while they begin."""
        for hop in self._hops:
            hop.cut()
        if transport := self.get_transport():
            cut(transport)

    @override
    def close(self) -> None:
        """Close the connection, and those to its jump hosts."""
        super().close()
        while self._hops:
            self._hops.pop().close()

    def _begin(self, sock: Any, **options: Any) -> Transport:
        made = PinnedFirst(sock, **options)
        self._host_keys = Pins(self._known, made)
        return made
