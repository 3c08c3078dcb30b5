// Package config reads the configuration of fencing-controller: one YAML file. It reports all problems at once, each
// with its line. Unknown keys are refused. [Default] is the configuration without a file, [Example] is a file with
// every key.
//
// It is called once at the start, and blocks only on the file.
package config
