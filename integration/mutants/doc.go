// Command mutants takes the guards of ballot, lease and publication away, one at a time, and
// runs the tests that must notice. A test suite that does not fail without a guard does
// not test it.
//
//	go run ./integration/mutants [-run REGEXP] [-list] [-v]
//
// A mutant is one or more replacements of source text, given to the compiler with -overlay:
// the working tree is never touched. Each is caught by a failing test or survives; the
// program ends with 1 if one survives, does not apply to the source any more, or does not
// compile. The list is in mutants_*.go; the rule numbers are those of docs/lease.md,
// or a word for what stands in no rule of it.
//
// It runs the go command and needs a minute for every thirty mutants or so.
package main
