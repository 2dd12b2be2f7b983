# Use the inventory's proxy for what this script downloads: pip, curl, wget, apt, yum and dnf read these
# variables. No file of the node is changed. A proxy that a program's own file sets has precedence.
# Variables: proxy (its URL, or empty), direct (hosts that are reached without it, with commas).
# Given: proxy direct
# shellcheck shell=sh disable=SC2154
if [ -n "$proxy" ]; then
  http_proxy=$proxy https_proxy=$proxy no_proxy=localhost,127.0.0.1,::1${direct:+,$direct}
  HTTP_PROXY=$http_proxy HTTPS_PROXY=$https_proxy NO_PROXY=$no_proxy
  export http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY
  unset all_proxy ALL_PROXY
fi
