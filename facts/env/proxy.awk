# Prints FILE<tab>LINE<tab>NAME<tab>HOST:PORT for each line that sets a proxy on this machine. Start
# files of shells: only at the beginning of a line, because a function or an alias sets nothing. Nothing
# else of a line is printed: a user and a password may be in front of the host.
FNR == 1 { file = FILENAME; number = 0 }
marked && /^\001/ { file = substr($0, 2); number = 0; next }
{ number++; text = tolower($0) }
length(text) > 4096 || text !~ /proxy/ || text ~ /^[ \t]*([#;]|\/\/)/ { next }
file ~ /environment$|profile|bash|\.sh$/ && text !~ /^(export[ \t]+|declare -x[ \t]+)?[a-z_]+=/ { next }
text ~ /no_proxy|no-proxy|bypass/ { next }
{
  at = index(text, "proxy"); rest = substr(text, at)
  if (!match(rest, /(127\.[0-9]+\.[0-9]+\.[0-9]+|localhost|\[::1\]):[0-9]+/)) next
  if (substr(rest, RSTART - 1, 1) ~ /[a-z0-9.-]/) next
  name = "proxy"
  if (match(text, /[a-z]+_proxy=/)) name = substr(text, RSTART, RLENGTH - 1)
  match(rest, /(127\.[0-9]+\.[0-9]+\.[0-9]+|localhost|\[::1\]):[0-9]+/)
  print file "\t" number "\t" name "\t" substr(rest, RSTART, RLENGTH)
}
