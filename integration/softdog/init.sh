#!/bin/sh
# Process 1 of a machine: FOLDER MODULES. It runs the script of the folder, and says on its console when it ends.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmp /tmp
mkdir -p /tmp/node /tmp/dev
mount -t hostfs none /tmp/node -o "$1"
mount -t tmpfs dev /dev
mknod /dev/null c 1 3
mknod /dev/kmsg c 1 11
mknod /dev/urandom c 1 9
# User-mode Linux cannot restart itself, so that softdog has it panic.
insmod "$2/kernel/drivers/watchdog/softdog.ko" soft_panic=1 nowayout=0
dog=$(ls -d /sys/class/watchdog/watchdog[1-9] | head -n 1) # the first is User-mode Linux's own
export DOG=/dev/${dog##*/}
mknod $DOG c $(sed 's/:/ /' "$dog/dev")
# Debian's kernel for User-mode Linux does not show watchdogs in sysfs. This stands in for what others show there.
export FENCECTL=/tmp/node/fencectl NODE=/tmp/node ROOT=/tmp/root SYS=/tmp/root$dog
mkdir -p $ROOT/proc $SYS
mount -o bind /proc $ROOT/proc
echo "Software Watchdog" > $SYS/identity
echo inactive > $SYS/state
echo 60 > $SYS/timeout
echo 0 > $SYS/nowayout
echo "machine: up"
sh /tmp/node/script 2>&1
echo "machine: script ended with $?"
while :; do sleep 1000; done
