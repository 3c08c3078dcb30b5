#!/bin/sh
# Runs spin over lease.pml: four bounds in which nothing may be found, and seven models that
# lack a rule, in which something must be found. It works in a folder of its own.
set -u
for tool in spin "${CC:-cc}"; do
	command -v "$tool" >/dev/null || { echo "spec: needs spin and a C compiler, $tool is missing; on Debian: apt-get install spin gcc" >&2; exit 1; }
done
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# check WANT NAME DEFINES...
check() {
	want=$1 name=$2
	shift 2
	(cd "$work" && rm -f ./* && spin "$@" -a "$here/lease.pml" >spin.log 2>&1 && "${CC:-cc}" -O2 -DSAFETY -DCOLLAPSE -o pan pan.c 2>>spin.log && ./pan -m200000 -w23 >pan.log 2>&1)
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$work/pan.log" 2>/dev/null)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/pan.log" 2>/dev/null)
	incomplete=$(grep -c 'max search depth too small\|out of memory' "$work/pan.log" 2>/dev/null)
	if [ "$errors" = "$want" ] && { [ "$want" = 1 ] || [ "$incomplete" = 0 ]; }; then
		passed=$((passed + 1)) word=ok
	else
		failed=$((failed + 1)) word=FAILED
		cat "$work/spin.log" >&2
	fi
	printf '%-6s %-42s %10s states, %s violations\n' "$word" "$name" "${states:-?}" "${errors:-?}"
}

check 0 "two ballots each" -DBEATS=0 -DFAILS=0
check 0 "two ballots and a heartbeat each" -DBEATS=1 -DFAILS=0
check 0 "a write fails, and lands late or never" -DBEATS=0 -DFAILS=1
check 0 "a crash, a reboot" -DBEATS=0 -DFAILS=0 -DKILLS=1 -DBOOTS=1 -DBALLOTS=1
for rule in B2 B5 B6 L1 L5 L5END; do
	check 1 "without $rule" -D$rule -DBEATS=0 -DFAILS=0
done
check 1 "without B3" -DB3 -DBEATS=0 -DFAILS=0 -DKILLS=1 -DBALLOTS=2
echo "spec: $passed passed, $failed failed"
test $failed -eq 0
