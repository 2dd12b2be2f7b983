# Functions that fetch the indexes of apt's repositories. apt-helper uses the proxies and
# certificates of apt. Old repositories have no InRelease; a flat trusted one may only have a list
# of its packages.
helper=/usr/lib/apt/apt-helper
apt_take() {
  $limit "$helper" -o APT::Sandbox::User=root -o Acquire::Retries=0 \
    -o Acquire::http::Timeout=8 -o Acquire::https::Timeout=8 download-file "$1" "$2" 2>&1
}
apt_one() {
  url=$1 file=$scratch/$2
  case $url in
    (cdrom:*) printf 'bad\t%s\tit is a disc\n' "$url"; return ;;
    (file:*) path=${url#file:}; path=/${path#"${path%%[!/]*}"}
      if [ -d "${path%/*}" ]; then printf 'ok\t%s\t\n' "$url"
      else printf 'bad\t%s\tthere is no such folder\n' "$url"; fi
      return ;;
  esac
  answer=$(apt_take "$url" "$file"); code=$?
  case $code$answer in
    (0*) ;;
    (*404*)
      for index in Release Packages Packages.xz Packages.gz; do
        ! apt_take "${url%InRelease}$index" "$file" >/dev/null || { code=0; break; }
      done ;;
  esac
  if [ "$code" = 0 ]; then
    printf 'ok\t%s\t\n' "$url"
  else
    answer=$(printf '%s\n' "$answer" | sed -n \
      -e 's/^E: Failed to fetch [^ ]* *//p; t' -e 's/^E: *//p' | head -n 1)
    printf 'bad\t%s\t%s\n' "$url" "${answer:-no answer within @limit@ s}"
  fi
}
apt_sources() {
  [ -x "$helper" ] || { echo 'apt-helper is not installed'; return 1; }
  answer=$(apt-get --print-uris update 2>&1) ||
    { printf '%s\n' "$answer" | tail -n 1; return 1; }
  number=0
  for url in $(printf '%s\n' "$answer" | sed -n "s/^'\([^' ]*Release\)'.*/\1/p" | sort -u); do
    number=$((number + 1))
    apt_one "$url" "$number" >"$scratch/answer.$number" &
  done
}
