package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

func newConfigSchemaCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the agent's configuration",
		Long: `Print the JSON schema (draft 7) of the configuration file of this version, made from the types into
which the agent reads it: keys, types, choices, ranges of numbers, defaults.

An editor with a YAML language server checks and completes a file that names the schema in its first line.
What depends on more than one key is checked by "fencectl config check" alone.`,
		Example: `  fencectl config schema > fencing-agent.schema.json
  sed -i '1i # yaml-language-server: $schema=fencing-agent.schema.json' agent.yaml`,
		Args: operands(),
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		e := json.NewEncoder(env.stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(config.JSONSchema())
	}
	return cmd
}
