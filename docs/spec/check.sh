#!/bin/sh
# Runs spin over lease.pml and sentence.pml: bounds in which nothing may be found, and models
# that lack a rule, in which something must be found. It works in a folder of its own.
set -u
for tool in spin "${CC:-cc}"; do
	command -v "$tool" >/dev/null || { echo "spec: needs spin and a C compiler, $tool is missing; on Debian: apt-get install spin gcc" >&2; exit 1; }
done
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
model=lease.pml search="-m200000 -w23"

# check WANT NAME DEFINES...
check() {
	want=$1 name=$2
	shift 2
	(cd "$work" && rm -f ./* && spin "$@" -a "$here/$model" >spin.log 2>&1 && "${CC:-cc}" -w -O2 -DSAFETY -DCOLLAPSE -o pan pan.c 2>>spin.log && ./pan $search >pan.log 2>&1)
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$work/pan.log" 2>/dev/null)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/pan.log" 2>/dev/null)
	incomplete=$(grep -c 'max search depth too small\|out of memory' "$work/pan.log" 2>/dev/null)
	if [ "$errors" = "$want" ] && { [ "$want" = 1 ] || [ "$incomplete" = 0 ]; }; then
		passed=$((passed + 1)) word=ok
	else
		failed=$((failed + 1)) word=FAILED
		cat "$work/spin.log" >&2
	fi
	printf '%-6s %-62s %10s states, %s violations\n' "$word" "$name" "${states:-?}" "${errors:-?}"
}

check 0 "two ballots each" -DBEATS=0 -DFAILS=0
check 0 "two ballots and a heartbeat each" -DBEATS=1 -DFAILS=0
check 0 "a write fails, and lands late or never" -DBEATS=0 -DFAILS=1
check 0 "a crash, a reboot" -DBEATS=0 -DFAILS=0 -DKILLS=1 -DBOOTS=1 -DBALLOTS=1
check 0 "the LUN is another group's for a while" -DBEATS=0 -DFAILS=0 -DSWAPS=2
for rule in B2 B5 B6 L1 L5 L5END; do
	check 1 "without $rule" -D$rule -DBEATS=0 -DFAILS=0
done
check 1 "without B3" -DB3 -DBEATS=0 -DFAILS=0 -DKILLS=1 -DBALLOTS=2
check 1 "without B10" -DB10 -DBEATS=1 -DFAILS=0 -DSWAPS=2 -DBALLOTS=1

# The sentence. quiet: nothing goes wrong but the network; -E: a state without a way on is no fault.
model=sentence.pml search="-E -m1000000 -w24"
quiet="-DKILLS=0 -DSTARTS=0 -DBLIND=0 -DHANGS=0 -DBOOTS=0 -DSTOPS=0"
check 0 "sentence: a kill, a stop, a hung write, a boot" -DNONE
check 0 "sentence: two kills, two starts" -DKILLS=2 -DBOOTS=0
check 0 "sentence: the driver refuses" -DREFUSALS=1 -DHANGS=0
check 0 "sentence: two halves, two grants, three cuts" -DBOTH -DW=3 $quiet -DGRANTS=2 -DCUTS=3
check 0 "sentence: two halves, a grant, a hung write" -DBOTH -DW=3 -DKILLS=0 -DSTARTS=0 -DBLIND=0 -DBOOTS=0 -DSTOPS=0 -DGRANTS=1 -DCUTS=1
check 0 "sentence: two halves, two grants, a kill, a start" -DBOTH -DW=3 -DBLIND=0 -DHANGS=0 -DBOOTS=0 -DSTOPS=0 -DGRANTS=2 -DCUTS=1
mutant() {
	name=$1
	shift
	check 1 "sentence without $name" "$@"
}
mutant "P1 (silence is enough)" -DSILENCE -DBOTH $quiet -DGRANTS=1 -DCUTS=1
mutant "P1 (the grant of the other is enough)" -DGRANTWORD -DBOTH $quiet -DGRANTS=1 -DCUTS=3
mutant "P1 (its words may be of any age)" -DUNDATED -DBOTH -DKILLS=0 -DSTARTS=0 -DBLIND=0 -DBOOTS=0 -DSTOPS=0 -DGRANTS=1 -DCUTS=3
mutant "P2 (the condemned feeds, and is counted)" -DKEEPS
mutant "P2 (a planned stop disarms, and it is counted)" -DDISARMS
mutant "P2 (the condemned asks for a grant)" -DASKS -DBOTH -DBLIND=0 -DHANGS=0 -DBOOTS=0 -DSTOPS=0 -DGRANTS=2 -DCUTS=1
mutant "P2 (told before the timeout was read back)" -DEARLY
mutant "P2 (not read back, and the driver refuses)" -DNOREADBACK -DREFUSALS=1
mutant "P2' (the next agent neither looks nor waits)" -DNOLOOK
mutant "P2' (it waits from its own start)" -DSOONWAIT
mutant "P3 (a long timeout is told)" -DLONG -DREFUSALS=1
mutant "P3 (B = T)" -DB=T
mutant "P3 (B = T + r: closes restart the countdown)" "-DB=2"
mutant "P4 (B begins with the read)" -DFROMBEGIN
mutant "P6 (a bit without a boot)" -DNOBOOT
mutant "P6 (the next boot carries it on)" -DCARRIED
echo "spec: $passed passed, $failed failed"
test $failed -eq 0
