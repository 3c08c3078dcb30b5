#!/bin/sh
# fence-agents 4.12.1-1 (Debian 12): fence_apc cannot log in by ssh with its defaults, and says only that it cannot connect.
#
# With --ssh and nothing else fence_apc starts ssh with "-1 -c blowfish": protocol 1 and a cipher that OpenSSH removed in
# 7.6 (2017). ssh ends at once, whatever listens at the other end. The agent reports "Unable to connect/login to fencing
# device" with exit status 1, as for a device that is off or a wrong password; why it ended is to be seen with -v only, in
# a dump of the program that it drives. Metadata shows the default as that of ssh_options, so a configuration that was
# checked against the metadata looks right, and fails at the first emergency.
#
# Seen with openssh-client 1:9.2p1-2+deb12u10: "SSH protocol v.1 is no longer supported", exit status 1, within a second and
# without a connection. With --ssh-options given, ssh begins to connect.
# Consequence for users: give ssh_options (an empty line does not count; "-o ServerAliveInterval=5" will do), and try each
# device by the status action before you rely on it.
#
# Needs apt-get, dpkg-deb, Python 3.11 and the libraries of Debian 12. Exits 0 while the behaviour is as described, 1 when
# it has changed, 2 when the packages cannot be had.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
set -- fence-agents=4.12.1-1 openssh-client=1:9.2p1-2+deb12u10 python3-pexpect=4.8.0-4 python3-ptyprocess=0.7.0-5 \
  python3-pycurl=7.45.2-3 libedit2=3.1-20221030-2 libfido2-1=1.12.0-2+b1 libcbor0.8=0.8.0-2+b1
apt-get download -q "$@" >/dev/null 2>&1 || { echo "cannot get $*: apt-get update?" >&2; exit 2; }
for package in *.deb; do dpkg-deb -x "$package" root; done

libraries=$(dirname "$(find "$dir/root" -name 'libedit.so.2')")
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$dir/root/usr/bin/ssh" > ssh
chmod +x ssh
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$dir/root/usr/lib/python3/dist-packages:$dir/root/usr/share/fence" LC_ALL=C

# ask runs the status action against a port of loopback on which nobody listens.
ask() {
  status=0
  said=$(timeout 60 /usr/bin/python3 root/usr/sbin/fence_apc --ip=127.0.0.1 --ipport=9 --ssh --ssh-path="$dir/ssh" \
    --username=operator --password=secret --plug=1 --action=status "$@" 2>&1) || status=$?
}

ask
echo "with its defaults: exit status $status: $(echo "$said" | grep -o 'Unable to connect.*' || true)"
first=$status
ask --verbose
why=$(echo "$said" | grep -o 'SSH protocol v.1 is no longer supported' | head -n 1 || true)
command=$(echo "$said" | grep -o -- '-1 -c blowfish' | head -n 1 || true)
echo "why, with -v: $command: $why"
ask --verbose --ssh-options='-o ConnectTimeout=5'
other=$(echo "$said" | grep -o 'Connection refused' | head -n 1 || true)
echo "with ssh_options: $other"
[ "$first" -eq 1 ] && [ -n "$why" ] && [ -n "$command" ] && [ -n "$other" ] || { echo "changed: this is not what 4.12.1 did"; exit 1; }
