#!/bin/sh
# Makes the root of the executor's image in a folder, without a container tool: a bare Debian, and in it what the
# Dockerfile installs and copies. Needs root, debootstrap and Debian's archive. Its architecture is that of this machine.
#   deploy/executor/root.sh FOLDER PROGRAM
# MIRROR and SECURITY are URLs of Debian's archive, if those that debootstrap knows are not to be used.
set -eu
root=$1 program=$2
here=$(dirname "$0")
suite=bookworm
packages=$(sed -n 's/.*apt-get install --yes --no-install-recommends \(.*\) \\$/\1/p' "$here/Dockerfile")
[ -n "$packages" ] || { echo "root.sh: the Dockerfile names no packages" >&2; exit 1; }
said=$(mktemp)
trap 'rm -f "$said"' EXIT
quietly() { "$@" >"$said" 2>&1 || { cat "$said" >&2; echo "root.sh: failed: $*" >&2; exit 1; }; }
# Agents that log in need a terminal.
inside() {
	quietly unshare --mount --pid --fork --mount-proc="$root/proc" sh -ec '
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
		if [ -c "$1/dev/ptmx" ]; then mount --bind "$1/dev/pts/ptmx" "$1/dev/ptmx"; fi
		exec chroot "$1" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive sh -ec "$2"
	' sh "$root" "$1" </dev/null
}
# shellcheck disable=SC2086 # without MIRROR debootstrap takes its default
quietly debootstrap --variant=minbase "$suite" "$root" ${MIRROR:-}
mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$root/etc/apt/sources.list" | head -n 1)
[ -n "$mirror" ] || { echo "root.sh: debootstrap has left no archive in sources.list: give MIRROR=URL" >&2; exit 1; }
security=${SECURITY:-$mirror-security}
cat >"$root/etc/apt/sources.list" <<END
deb $mirror $suite main
deb $mirror $suite-updates main
deb $security $suite-security main
END
# What Debian's own slim images leave out: all of the documentation but who owns what.
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
END
inside "apt-get update; apt-get upgrade --yes; apt-get install --yes --no-install-recommends $packages; apt-get clean"
rm -rf "$root"/var/lib/apt/lists/* "$root"/usr/share/man/* "$root"/usr/share/locale/* "$root"/var/log/*.log "$root"/var/log/apt
find "$root/usr/share/doc" -type f ! -name copyright -delete
install -D -m 0755 "$program" "$root/usr/local/bin/fencing-executor"
# What else the Dockerfile does, a line at a time.
sed -n 's/^RUN \(.*[^\\]\)$/\1/p' "$here/Dockerfile" | while IFS= read -r line; do inside "$line"; done
