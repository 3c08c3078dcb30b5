#!/bin/sh
# Builds ROOT/bin/kubetest, the control plane of make test-kube (its source is integration/kube/cmd/kubetest), and with the
# word runtime ROOT/bin/runtime for make cluster: containerd, runc and CNI plugins (integration/cluster/cmd/runtime).
#
#     tools/kubetest/build.sh ROOT [runtime]
#
# It compiles most of Kubernetes: minutes on the first run, and 3 GB in Go's build cache. So the programs are kept beside a
# key made from their source and from the version of Go, and only that decides whether they are built again: bin/ may be
# carried from machine to machine without the build cache. They are built beside the old ones and moved there at the end: a
# build that was interrupted leaves no half program.
set -eu
name=${2:-kubetest}
cd "$1"
mkdir -p bin
program=$PWD/bin/$name
fresh=$program.new
began=$(date +%s)
export GOWORK=off CGO_ENABLED=0 # a workspace would bring in other versions
nice=$(command -v nice || true)

say() { echo "$name: $*"; }
after() { echo "after $(($(date +%s) - began)) s"; }
die() { say "$*" >&2; exit 1; }

# compile PACKAGES...: with the flags in $flags, into $fresh or below it. It says how far it is, and what else go says.
compile() {
	total=$(go list -deps "$@" | wc -l)
	{ $nice go build -v -buildvcs=false -o "$fresh$below" $tags -ldflags "$flags" "$@" 2>&1 || : >"$fresh.failed"; } |
		awk -v name="$name" -v total="$total" 'NF == 1 { if (++n % 300 == 0) { print name ": " n " of at most " total " packages compiled"; fflush() } next } { print }' >&2
	[ ! -e "$fresh.failed" ]
}

case $name in
kubetest)
	cd integration/kube/cmd/kubetest
	costs="all of Kubernetes, about 9 minutes on two cores, 600 MB to download, 4 GB of build cache"
	release=$(sed -n 's/^[[:space:]]*\(require \)\{0,1\}k8s\.io\/kubernetes \(v[0-9]*\.[0-9]*\.[0-9]*\)$/\2/p' go.mod)
	;;
runtime)
	cd integration/cluster/cmd/runtime
	costs="containerd, runc and CNI plugins, about 2 minutes on two cores"
	release=$(sed -n 's/^[[:space:]]*\(github\.com\/containerd\/containerd\/v2 v[0-9.]*\)\( \/\/ indirect\)\{0,1\}$/\1/p' go.mod)
	;;
*) die "usage: build.sh ROOT [runtime]" ;;
esac
[ -n "$release" ] || die "$PWD/go.mod requires no release that $name is of"
key=$({ for f in *.go go.mod go.sum; do [ ! -e "$f" ] || { echo "$f" && cat "$f"; }; done; go env GOVERSION GOOS GOARCH; } | sha256sum)
if [ -e "$program" ] && [ "$key" = "$(cat "$program.key" 2>/dev/null)" ]; then
	say "$program is built, of $release"
	exit
fi

rm -rf "$fresh"
trap 'rm -rf "$fresh" "$fresh.failed"' EXIT
trap 'exit 1' INT TERM
begin() { say "builds $release: $costs; once"; go mod download; say "modules are there $(after)"; }
below="" tags="" flags="-s -w"
if [ "$name" = kubetest ]; then
	begin
	minor=${release#v*.} version=k8s.io/component-base/version # kubectl, Helm and clients look at it
	major=${release%%.*}
	flags="$flags -X $version.gitVersion=$release -X $version.gitMajor=${major#v} -X $version.gitMinor=${minor%%.*}"
	compile .
else
	# runc joins namespaces in C before Go begins, and the runtime's seccomp profile takes its library.
	{ command -v "${CC:-gcc}" && pkg-config --exists libseccomp; } >/dev/null 2>&1 ||
		die "runc needs a C compiler and libseccomp: apt-get install gcc libc6-dev libseccomp-dev pkg-config"
	begin
	below=/ containerd=github.com/containerd/containerd/v2/cmd plugins=github.com/containernetworking/plugins/plugins
	compile $containerd/containerd $containerd/containerd-shim-runc-v2 $containerd/ctr $plugins/main/bridge $plugins/ipam/host-local
	tags="-tags seccomp"
	CGO_ENABLED=1 compile github.com/opencontainers/runc
fi
rm -rf "$program"
mv "$fresh" "$program"
echo "$key" >"$program.key"
say "$program is built $(after)"
