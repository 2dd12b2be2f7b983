# find_pip: sets $pips to the Python whose pip installs into the environment of $python: that, or its base
# where it has none, as those of uv; then $into is $python. pip runs itself there without -I.
find_pip() {
  pips=$python into=
  ! "$python" -I -B -c 'import pip' 2>/dev/null || return 0
  unset PYTHONPATH PYTHONHOME
  PYTHONNOUSERSITE=1; export PYTHONNOUSERSITE
  into=$python
  pips=$("$python" -I -B -c 'import sys
print("%s/bin/python%d.%d" % (sys.base_prefix, sys.version_info[0], sys.version_info[1]))' | tail -n 1)
}
pip() { "$pips" -I -B -m pip ${into:+"--python=$into"} "$@"; }
