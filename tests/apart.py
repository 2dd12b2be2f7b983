"""How the tests run programs among processes of their own, with a /var/tmp of their own.

A script that looks at every process takes a tenth of the time among few. Some remove from /var/tmp
what belongs to no process that they see, so that those who share one need to see each other.
"""

APART = ("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
OWN_TMP = "mount -t tmpfs -o mode=1777 tmpfs /var/tmp"
