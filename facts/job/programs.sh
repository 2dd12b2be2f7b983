# The programs $@ as a launcher's shell finds them: `program<tab>NAME<tab>PATH<tab>PYTHON<tab>CLOSED`.
# Then, of each Python, what is installed beside it:
# `python<tab>PATH<tab>VERSION<tab>NAME-VERSION ...<tab>CLOSED`. Nothing is started: names of folders say
# it. CLOSED is what closed_at prints of a path that cannot be started.
# of_conda NAME/bin/PROGRAM: prints its path, if there is one environment of that name: conda lists
# the folders of all that it made.
of_conda() {
  {
    head -n 1000 "$HOME/.conda/environments.txt" 2>/dev/null
    for root in "$HOME" /opt /usr/local; do
      for each in miniconda3 anaconda3 miniforge3 mambaforge conda; do
        printf '%s\n' "$root/$each" "$root/$each/envs/${1%%/*}"
      done
    done
  } | sort -u | while IFS= read -r folder; do
    case $folder in
      (*/envs/"${1%%/*}") ;;
      (*/envs/*) continue ;;
      (*) [ "${1%%/*}" = base ] || continue ;;
    esac
    [ ! -x "$folder/${1#*/}" ] || printf '%s\n' "$folder/${1#*/}"
  done | awk '{ path = $0 } END { if (NR == 1) print path }'
}
# The Pythons come behind the names in $@.
newline='
'
names=$# seen=$newline
for name; do
  case $name in
    (-*) found= ;;
    (conda:*) found=$(of_conda "${name#conda:}") ;;
    ([~]/*) found=$(command -v "$HOME/${name#??}" 2>/dev/null) || found= ;;
    (*) found=$(command -v "$name" 2>/dev/null) || found= ;;
  esac
  case $found in (/*) [ -x "$found" ] || found= ;; (*) found= ;; esac
  python='' place=
  case $found$name in
    ([~]/*) place=$(closed_at "$HOME/${name#??}") ;;
    ("$name") place=$(closed_at "$name") ;;
  esac
  if [ -n "$found" ]; then
    case ${name##*/} in
      (python | python[0-9]*) python=$found ;;
      (*) python=$({ head -n 1 <"$found"; } 2>/dev/null | tr -d '\000' |
        sed -n 's/^#! *\(\/[^[:cntrl:] ]*\).*/\1/p')
        # A long prefix, or one with blanks, does not fit into #!: pip writes a line for sh.
        [ "$python" != /bin/sh ] ||
          python=$(sed -n -e "2s/^'*'exec' \"\(\/[^[:cntrl:]\"]*\)\".*/\1/p" \
            -e "2s/^'*'exec' \(\/[^[:cntrl:] \"]*\).*/\1/p" <"$found")
        case $python in (*/env) python=$(command -v python3) || python= ;; esac ;;
    esac
  fi
  printf 'program\t%s\t%s\t%s\t%s\n' "$name" "$found" "$python" "$place"
  case $seen in (*"$newline$python$newline"*) continue ;; esac
  [ -z "$python" ] || set -- "$@" "$python"
  seen=$seen$python$newline
done
shift "$names"
for python; do
  # An environment's python is a link to another installation's, but for that its folder counts.
  prefix=${python%/*} prefix=${prefix%/bin}
  version='' packages=
  for site in "$prefix"/lib/python3*/site-packages "$prefix"/lib64/python3*/site-packages \
    "$prefix"/local/lib/python3*/dist-packages "$prefix"/lib/python3/dist-packages \
    "$HOME"/.local/lib/python3*/site-packages; do
    [ -d "$site" ] || continue
    case ${site#"$prefix/"} in
      (lib*/python3.*) version=${site%/*} version=${version##*/python} ;;
    esac
    for each in torch deepspeed accelerate transformers nvidia_nccl_cu11 nvidia_nccl_cu12 \
      nvidia_nccl_cu13; do
      for info in "$site/$each"-*.dist-info "$site/$each"-*.egg-info; do
        [ ! -e "$info" ] || { info=${info##*/}; packages="$packages ${info%.*-info}"; }
      done
    done
  done
  # Debian's folder of packages names no version: python3 is a link to one that does.
  if [ -z "$version" ] && [ -d "$prefix/lib/python3/dist-packages" ]; then
    version=$(readlink "$python") && version=${version##*/}
    case $version in (python3.*) version=${version#python} ;; (*) version='' ;; esac
  fi
  [ -e "$python" ] || version=missing
  place=
  [ -x "$python" ] || place=$(closed_at "$python")
  printf 'python\t%s\t%s\t%s\t%s\n' "$python" "$version" "${packages# }" "$place"
done
