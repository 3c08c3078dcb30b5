// Package config is the agent's configuration file: one typed tree, read strictly,
// checked as a whole, with the values that follow from it computed in one place.
//
// # State and invariants
//
// [Load] and [Parse] return either a [Config] that has passed every check or an
// [*Invalid] that lists every problem of the file at once, each with the path of the
// key, its line, the value found and what is allowed. Nothing is guessed: unknown and
// repeated keys, aliases, wrong types, values out of range, contradictions and
// settings that this version does not carry out are refused. What is legal but
// probably not meant comes back as warnings, which the caller logs.
//
// A Config is never changed after it was loaded. Everything that depends on several
// keys (the parameters of gossip, the arbitration budget, the time after which a lost
// node may be called fenced) is a method here and is computed nowhere else.
//
// The tags of the struct are the schema: yaml names the key, range and form say what
// its value may be. docs/configuration.md is checked against them.
//
// # Concurrency
//
// All functions are pure, except that they read the file, the hostname and the environment, which is passed to [Load].
// A Config may be read from any goroutine.
//
// # Errors
//
// An error that is not an *Invalid means that the file could not be read. No input
// makes the package panic.
package config
