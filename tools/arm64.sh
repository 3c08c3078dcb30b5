#!/bin/sh
# tools/arm64.sh COMMAND...: runs a command in whose sight the kernel starts arm64 programs, by QEMU's user mode. On a
# machine of arm64, and where Debian's qemu-user-binfmt has told the kernel already, it only runs the command. Elsewhere
# it tells the kernel in a user namespace of its own, so that the rest of the machine keeps its ways; Linux can from 6.7 on.
set -eu

if [ "${ARM64_INSIDE:-}" ]; then
  mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || {
    echo "arm64: this kernel keeps no programs for a namespace (Linux 6.7 can): apt-get install qemu-user-binfmt" >&2
    exit 1
  }
  # F: the interpreter is opened now, for programs that see another root.
  printf '%s' ':arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$ARM64_INSIDE"':F' \
    >/proc/sys/fs/binfmt_misc/register
  unset ARM64_INSIDE
  exec "$@"
fi

if [ "$(uname -m)" = aarch64 ] || grep -qs enabled /proc/sys/fs/binfmt_misc/qemu-aarch64; then
  exec "$@"
fi
ARM64_INSIDE=$(command -v qemu-aarch64) || {
  echo "arm64: needs qemu-aarch64: apt-get install --no-install-recommends qemu-user" >&2
  exit 1
}
export ARM64_INSIDE
exec unshare --user --map-root-user --mount "$0" "$@"
