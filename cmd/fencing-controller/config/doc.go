// Package config reads the configuration of fencing-controller: one YAML file, all of whose problems are told at once,
// each with its line. Unknown keys are refused. [Default] is what holds without a file's word, [Example] is a file with
// every key.
//
// It is called once at the start, and blocks on the file alone.
package config
