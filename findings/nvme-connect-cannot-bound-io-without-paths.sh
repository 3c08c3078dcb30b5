#!/bin/sh
# nvme-cli 2.4+really2.3-3 with libnvme 1.3-1+deb12u1 (Debian 12): "nvme connect" has an option for each time limit of a
# controller except the one that bounds I/O.
#
# Linux has three: keep_alive_tmo says how soon a lost path is noticed, fast_io_fail_tmo when I/O without a path fails, and
# ctrl_loss_tmo when the controller and its devices are removed. By default fast_io_fail_tmo is off, so a read of a LUN
# whose paths are all lost waits for ctrl_loss_tmo, 10 minutes. A short ctrl_loss_tmo is no way out: a program that holds
# the device then reads 0 bytes for good, and the namespace comes back under another name. libnvme of the same Debian
# knows fast_io_fail_tmo; nvme refuses it, under each spelling, and its help does not mention it.
#
# Seen: "unrecognized option" for --fast_io_fail_tmo and --fast-io-fail-tmo; --keep-alive-tmo and --ctrl-loss-tmo are in
# the help; the string fast_io_fail_tmo is in libnvme.so.1.3.0.
# Consequence for users: set /sys/class/nvme/nvmeN/fast_io_fail_tmo by a udev rule, after the event "connected".
#
# Needs apt-get and dpkg-deb of a Debian 12 with its security updates. Exits 0 while the behaviour is as described, 1 when
# it has changed, 2 when the packages cannot be had.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get download -q nvme-cli=2.4+really2.3-3 libnvme1=1.3-1+deb12u1 libjson-c5=0.16-2 >/dev/null 2>&1 ||
  { echo "cannot get nvme-cli=2.4+really2.3-3, libnvme1=1.3-1+deb12u1 and libjson-c5=0.16-2: apt-get update?" >&2; exit 2; }
for package in *.deb; do dpkg-deb -x "$package" root; done
export LC_ALL=C LD_LIBRARY_PATH="$dir/root/usr/lib/x86_64-linux-gnu:$dir/root/lib/x86_64-linux-gnu"

help=$(root/usr/sbin/nvme connect --help 2>&1 || true)
for option in fast_io_fail_tmo fast-io-fail-tmo; do
  said=$(root/usr/sbin/nvme connect -t tcp -a 192.0.2.1 -s 4420 -n nqn.2024-01.example:lun "--$option=1" 2>&1 | head -n 1 || true)
  echo "--$option: $said"
  case $said in *"unrecognized option"*) ;; *) echo "changed: $option is no longer refused"; exit 1 ;; esac
done
echo "$help" | grep -o -e '--keep-alive-tmo=<NUM>' -e '--ctrl-loss-tmo=<NUM>'
case $help in *keep-alive-tmo*ctrl-loss-tmo*) ;; *) echo "changed: the other limits are not in the help"; exit 1 ;; esac
case $help in *fast*fail*) echo "changed: the help has it"; exit 1 ;; esac
grep -q fast_io_fail_tmo root/usr/lib/x86_64-linux-gnu/libnvme.so.1.3.0 || { echo "changed: libnvme does not know it"; exit 1; }
echo "libnvme.so.1.3.0 knows fast_io_fail_tmo"
