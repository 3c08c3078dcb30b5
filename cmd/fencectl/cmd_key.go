package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"
)

// keyBytes is the length of a key that the gossip is encrypted with: AES-256.
const keyBytes = 32

func newKeyCommand(env *environment) *cobra.Command {
	return newGroup("key COMMAND", "Make keys of the gossip", "Make keys for gossip.keyFile. How keys are changed is in docs/operations.md.", newKeyNewCommand(env))
}

func newKeyNewCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "new FILE",
		Short: "Make a file with a new key",
		Long: `Make FILE with one new key for gossip.keyFile, for its owner alone (mode 0600). The key is not shown. A FILE that exists
is left as it is: it may hold the key of a group that runs. Put the same file on all nodes of the group.

FILE may be - for standard output, for a Secret.`,
		Example: "  fencectl key new /etc/fencing-agent/gossip.keys\n  fencectl key new - | kubectl create secret generic gossip --from-file=keys=/dev/stdin",
		Args:    operands("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			key := make([]byte, keyBytes)
			_, _ = rand.Read(key) // never fails (crypto/rand)
			text := base64.StdEncoding.EncodeToString(key) + "\n"
			if args[0] == "-" {
				return writeText(env, []byte(text))
			}
			err := makeFile(args[0], 0o600, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists, and may hold the key of a group that runs: name another file, or see docs/operations.md for how keys are changed", args[0])
			}
			return err
		},
	}
}
