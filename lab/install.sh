#!/bin/sh
# Installs, by one call of apt, what this machine lacks of needs.tsv.
#
# install.sh packages           the names of all packages that set-up may install, a line each
# install.sh missing GROUP...   those that these groups lack on this machine
# install.sh install GROUP...   install them; quiet where nothing is missing, one line where it fails
#
# A process that holds a lock of apt's or dpkg's is waited for, at most LOCK_SECONDS.
set -eu
LC_ALL=C
# Commands of root's are in the system's folders, which a user's PATH may lack.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export LC_ALL PATH
: "${PYTHON:=python3}" "${LOCK_SECONDS:=600}"
table=$(dirname "$0")/needs.tsv

fail() {
    echo "set-up: $*" >&2
    exit 1
}

# What apt-get update reported, unless it is what apt-get install reports.
update_failed() {
    [ -z "$lists" ] || [ "$lists" = "$(reason)" ] || echo " (apt-get update: $lists)"
}

# Print the lines of the table that belong to some groups, or to all.
rows() {
    grep -v '^#' "$table" | while IFS='	' read -r group need package; do
        case " ${*:-$group} " in *" $group "*) echo "$need $package" ;; esac
    done
}

is_there() {
    case $1 in
    python:*) "$PYTHON" -c "import ${1#python:}" 2>/dev/null ;;
    /*)
        for file in $(echo "$1" | tr : ' '); do
            [ ! -e "$file" ] || return 0
        done
        return 1
        ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# Print the packages of what some groups lack; an optional one keeps its question mark.
missing() {
    rows "$@" | while read -r need package; do
        is_there "$need" || echo "$package"
    done | sort -u
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Run apt-get; its output is kept in $output. A lock is waited for, an interrupted dpkg is completed.
apt() {
    waited=0 completed=no
    while ! output=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" 2>&1 </dev/null); do
        case $output in
        *"Could not open lock file"*) return 1 ;;
        *"Could not get lock"* | *"Unable to lock"* | *"Unable to acquire"*) ;;
        *"dpkg was interrupted"*)
            [ "$completed" = no ] || return 1
            completed=yes
            as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a >/dev/null 2>&1 || :
            continue
            ;;
        *) return 1 ;;
        esac
        [ "$waited" -gt 0 ] || echo "set-up: waiting for another process: $(reason)" >&2
        [ "$waited" -lt "$LOCK_SECONDS" ] || return 1
        sleep 2
        waited=$((waited + 2))
    done
}

# What apt reports as the error, in one line.
reason() {
    line=$(printf '%s\n' "$output" | grep '^E: ' | head -n 1)
    [ "$line" ] || line=$(printf '%s\n' "$output" | tail -n 1)
    echo "${line#E: }"
}

# What makes the virtual environment is no package: apt could not mend it.
check_python() {
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
        fail "$PYTHON does not run; name another one: make PYTHON=..."
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "$PYTHON is Python $version: gpu-node needs 3.10; name a newer one: make PYTHON=..."
    # Debian has the system's own in a package.
    [ "$("$PYTHON" -c 'import sys; print(sys.prefix)')" = /usr ] ||
        "$PYTHON" -c 'import ensurepip' 2>/dev/null ||
        fail "$PYTHON has no ensurepip; name another one: make PYTHON=..."
}

install() {
    case " $* " in *" setup "*) check_python ;; esac
    packages=$(missing "$@" | paste -s -d ' ')
    # An optional package alone is no reason to call apt: the distribution may not have it.
    missing "$@" | grep -qv '?$' || return 0
    command -v apt-get >/dev/null || fail "there is no apt-get here (gpu-node installs its tools on" \
        "Debian and Ubuntu); install these yourself: $packages"
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        fail "root is needed to install $packages: run this as root, or install sudo"
    # sudo asks for its password here, where the question is seen.
    as_root true || fail "sudo does not let $(id -un) install $packages"
    echo "set-up: installing $(echo "$packages" | tr -d '?')" >&2
    lists=
    apt update || lists=$(reason)
    wanted=
    for package in $packages; do
        case $package in
        *\?) ! apt-cache show "${package%\?}" >/dev/null 2>&1 || wanted="$wanted ${package%\?}" ;;
        *) wanted="$wanted $package" ;;
        esac
    done
    # shellcheck disable=SC2086  # a list of packages
    apt install -y --no-remove --no-install-recommends $wanted ||
        fail "apt cannot install$wanted: $(reason)$(update_failed)"
    for package in $(missing "$@"); do
        case $package in
        *\?) ;;
        *) fail "apt has installed $package, but $(unmet "$package" "$@") is still missing; see:" \
            "dpkg -L $package" ;;
        esac
    done
}

# Print what one package should have brought and is not there.
unmet() {
    wanted=$1
    shift
    rows "$@" | while read -r need package; do
        [ "$package" != "$wanted" ] || is_there "$need" || echo "$need"
    done | paste -s -d ' '
}

awk -F '\t' '!/^#/ && NF != 3 { exit 1 }' "$table" ||
    fail "$table cannot be read, or has a line without three fields, with a tab between them"
action=${1-}
[ $# = 0 ] || shift
case $action in
packages) rows | while read -r _ package; do echo "${package%\?}"; done | sort -u ;;
missing) ! missing "$@" | grep -qv '?$' || missing "$@" | tr -d '?' ;;
install) install "$@" ;;
*) fail "usage: install.sh packages | missing GROUP... | install GROUP..." ;;
esac
