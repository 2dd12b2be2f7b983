# uname -m and the version of glibc, which decide what wheels a node takes; musl has no getconf for it.
printf 'machine %s\n' "$(uname -m)"
getconf GNU_LIBC_VERSION 2>/dev/null || :
