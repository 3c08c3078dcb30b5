#!/bin/sh
# Prints a patch that adds the subscriber to a Cilium source tree, for those who build Cilium from a
# tree with patches instead of with the program in agent/:
#
#     deploy/cilium/patch.sh CILIUM_TREE > 0NN-fencing-agent.patch
#
# The patch brings pkg/fencing (the subscriber, the client library and the API's messages: copies of
# this repository's files under other import paths) and its lines in daemon/cmd/cells.go. It needs no
# module that Cilium does not have. Made for Cilium 1.20; the tree is only read. Needs git.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
[ -f "${1:-}/daemon/cmd/cells.go" ] || { echo "usage: $0 CILIUM_TREE, a checkout of Cilium 1.20" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/a/daemon/cmd" "$work/b/daemon/cmd" "$work/b/pkg/fencing/client" "$work/b/pkg/fencing/v1"
cp "$1/daemon/cmd/cells.go" "$work/a/daemon/cmd/cells.go"
chmod u+w "$work/a/daemon/cmd/cells.go"

# After ClusterMesh: the last one to set the hook of the backend selection has it.
sed -e 's|^\tfqdn "github.com/cilium/cilium/pkg/fqdn/cell"$|\t"github.com/cilium/cilium/pkg/fencing"\n&|' \
  -e 's|^\t\tclustermesh\.Cell,$|&\n\n\t\t// Takes backends of LEFT nodes out of the load balancer.\n\t\tcell.Provide(fencingBase),\n\t\tfencing.Cell,|' \
  "$work/a/daemon/cmd/cells.go" > "$work/b/daemon/cmd/cells.go"
[ "$(grep -c fencing "$work/b/daemon/cmd/cells.go")" -eq 3 ] || { echo "$0: daemon/cmd/cells.go is not as in Cilium 1.20: add fencing.Cell behind clustermesh.Cell by hand" >&2; exit 1; }
{
  printf 'package cmd\n\nimport (\n\t"log/slog"\n\n\t"github.com/cilium/cilium/pkg/clustermesh"\n\t"github.com/cilium/cilium/pkg/fencing"\n\t"github.com/cilium/cilium/pkg/loadbalancer/writer"\n)\n\n'
  sed -n '/^\/\/ base is/,$p' "$here/agent/main.go" | sed -e 's/\bbase\b/fencingBase/g' -e 's/subscriber\./fencing./g'
} > "$work/b/daemon/cmd/fencing.go"

for f in "$here"/subscriber/*.go "$root"/api/client/*.go "$root"/api/v1/*.go; do
  case $f in
  *_test.go | */cilium_older.go | */cilium_11*.go) continue ;; # tests, and what is for older versions
  */api/client/*) to=client ;;
  */api/v1/*) to=v1 ;;
  *) to=. ;;
  esac
  if [ $to = v1 ]; then # generated: the descriptor in it knows the lengths of its strings
    cp "$f" "$work/b/pkg/fencing/v1/"
    continue
  fi
  sed -e 's|github.com/fencing-agent/fencing-agent/api/|github.com/cilium/cilium/pkg/fencing/|' \
    -e 's|^package subscriber$|package fencing|' -e 's|^// Package subscriber |// Package fencing |' \
    -e '\|^//go:build !cilium119|,+1d' "$f" > "$work/b/pkg/fencing/$to/$(basename "$f")"
done
cd "$work"
git diff --no-index --no-prefix a b || [ $? -eq 1 ]
