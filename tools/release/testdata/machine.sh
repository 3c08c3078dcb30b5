#!/bin/sh
# Makes a machine of a bare Debian: machine.sh ROOT MODULES. Its kernel is told by node=nI which one it is. It runs what
# comes on its first serial line.
set -e
root=$1
mkdir -p "$root/usr/lib/modules"
cp -a "$2" "$root/usr/lib/modules/"
# User-mode Linux cannot restart itself, so that softdog has it panic. The kernel is built with nowayout.
echo softdog >"$root/etc/modules-load.d/softdog.conf"
echo "options softdog soft_panic=1 nowayout=0" >"$root/etc/modprobe.d/softdog.conf"
echo "/dev/ubda / ext4 defaults 0 1" >"$root/etc/fstab"
# Each gets an id of its own at its first boot: udev makes hardware addresses of it.
: >"$root/etc/machine-id"
rm -f "$root/etc/hostname"
for i in 1 2 3; do
	cat >"$root/etc/systemd/network/n$i.network" <<END
[Match]
Name=vec0
KernelCommandLine=node=n$i
[Network]
Address=10.0.0.$i/24
IPv6AcceptRA=no
LinkLocalAddressing=no
END
done
# A line is a number and a command in base64; the answer has the number, the exit code and what it said.
cat >"$root/usr/local/sbin/serial-shell" <<'END'
#!/bin/bash
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty raw -echo
echo up
while read -r id text; do
	code=0
	said=$(bash -ec "$(echo "$text" | base64 -d)" 2>&1 </dev/null) || code=$?
	echo "answer $id $code $(printf %s "$said" | base64 -w0)"
done
END
chmod 0755 "$root/usr/local/sbin/serial-shell"
cat >"$root/etc/systemd/system/serial-shell.service" <<'END'
[Unit]
Description=Runs what comes on the serial line
[Service]
ExecStart=/usr/local/sbin/serial-shell
Environment=HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 NO_COLOR=1 COLUMNS=100
[Install]
WantedBy=multi-user.target
END
chroot "$root" systemctl --quiet enable serial-shell.service systemd-networkd.service
chroot "$root" systemctl --quiet mask serial-getty@ttyS0.service getty-static.service getty@tty1.service console-getty.service
chroot "$root" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer
