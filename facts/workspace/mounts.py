"""The mount of a folder: whether /etc/fstab has one for it that is not mounted."""

from gpu_node.facts.probe.shell import shell

ASK = shell("workspace/mounts")


def parse(text: str) -> tuple[dict[str, str | bool], str]:
    """Return the fields from the leading lines of `ASK`, and the lines after them."""
    fields: dict[str, str | bool] = {}
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if line == "mountpoint":
            fields["is_mount"] = True
        elif line.startswith("unmounted /"):
            fields["unmounted"] = line.removeprefix("unmounted ")
        else:
            break
        start = end + 1
    return fields, text[start:]
