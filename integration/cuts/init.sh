#!/bin/sh
# Process 1 of a machine: NAME ID FOLDER MODULES PROGRAMS. It answers what is asked on the console.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root NODE_NAME=$1 NODE_ID=$2
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2> /dev/null
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
for folder in run tmp etc var; do mount -t tmpfs $folder /$folder; done
mount -t hostfs none /node -o "$3"
mount -t hostfs none /modules -o "$4"
mount -t hostfs none /programs -o "$5"
stty raw -echo < /dev/ttyS0

# The first watchdog is User-mode Linux's own. Its restart of a machine does not work, a panic does: softdog panics, and
# so does what writes b or c to sysrq-trigger.
insmod /modules/kernel/drivers/watchdog/softdog.ko soft_panic=1 nowayout=0
rm /dev/watchdog
mknod /dev/watchdog c $(sed 's/:/ /' /sys/class/watchdog/watchdog1/dev 2> /dev/null || echo 254 1)
mkfifo /run/sysrq
touch /run/trigger
mount -o bind /proc/sysrq-trigger /run/trigger
(while read -r what < /run/sysrq; do echo "machine: sysrq $what"; echo c > /run/trigger; done) &
mount -o bind /run/sysrq /proc/sysrq-trigger

mkdir -p /var/lib /var/log /var/run
cp -a /node/etc/. /etc/
hostname $NODE_NAME
ip link set lo up
for network in 1 2; do
  ip link set vec$((network - 1)) address 02:00:00:00:0$network:0$NODE_ID
  ip addr add 10.77.$network.$NODE_ID/24 dev vec$((network - 1))
  ip link set vec$((network - 1)) up
done
echo "machine: up"
(. /node/service) < /dev/null &
while read -r id script; do
  (eval "$script" > /tmp/answer.$id 2>&1; code=$?; sed "s/^/answer $id /" /tmp/answer.$id; echo "done $id $code"; rm /tmp/answer.$id) < /dev/null &
done < /dev/ttyS0
echo "machine: nobody asks any more"
while :; do sleep 1000; done
