#!/bin/sh
# util-linux 2.38.1-5+deb12u3 (Debian 12): mkswap warns that it does not erase a GPT without -f, writes all the same, and
# the GPT is damaged.
#
# A type that other tools can name, such as a GPT or a protective MBR, is what keeps somebody from formatting a shared LUN
# that looks empty. mkfs.xfs and pvcreate stop at it or ask. mkswap prints "warning: don't erase bootbits sectors (gpt
# partition table detected). Use -f to force.", which reads like a refusal, writes its header and exits with 0. What it
# spares are the first 1024 bytes. The entries of the partition table begin right there, so the primary GPT is corrupt
# afterwards, without -f having been given. sfdisk then uses the backup at the end of the disk, if that is still there.
#
# Seen: exit status 0; sfdisk --verify finds no error before, and "The primary GPT table is corrupt" after.
# Consequence for users: no signature at the start of a LUN protects it from mkswap. Deny hosts that are not of the group
# the LUN (masking on the array), and keep an export of what stands on it.
#
# Needs apt-get and dpkg-deb of a Debian 12 with its security updates. Exits 0 while the behaviour is as described, 1 when
# it has changed, 2 when the packages cannot be had.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get download -q util-linux=2.38.1-5+deb12u3 fdisk=2.38.1-5+deb12u3 >/dev/null 2>&1 ||
  { echo "cannot get util-linux=2.38.1-5+deb12u3 and fdisk=2.38.1-5+deb12u3: apt-get update?" >&2; exit 2; }
for package in *.deb; do dpkg-deb -x "$package" root; done
export LC_ALL=C

truncate -s 64M disk
printf 'label: gpt\nsize=20M, name=alpha\nsize=20M, name=beta\n' | root/sbin/sfdisk -q disk
before=$(root/sbin/sfdisk --verify disk 2>&1 | head -n 2)
status=0
warning=$(root/sbin/mkswap disk 2>&1 >/dev/null) || status=$?
after=$(root/sbin/sfdisk --verify disk 2>&1 | head -n 2)

echo "before: $before"
echo "mkswap: exit status $status"
echo "$warning" | grep -A 1 bootbits || true
echo "after: $after"
case $before in *"No errors detected"*) ;; *) echo "changed: the fresh GPT is not in order"; exit 1 ;; esac
case $status$warning in 0*"Use -f to force"*) ;; *) echo "changed: mkswap does not go on with a warning"; exit 1 ;; esac
case $after in *"primary GPT table is corrupt"*) ;; *) echo "changed: the GPT is whole"; exit 1 ;; esac
