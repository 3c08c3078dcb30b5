// Command mutants takes the guards of ballot, lease and publication away, one at a time, and
// runs the tests that must notice. A test suite that does not fail without a guard does
// not test it.
//
//	go run ./integration/mutants [-run REGEXP] [-list] [-v]
//
// A mutant is one or more replacements of source text, given to the compiler with -overlay:
// the working tree is never touched. Each is caught by a failing test or survives; the
// program ends with 1 if one survives, does not apply to the source any more, or does not
// compile. The rule numbers are those of docs/lease.md, or a word for what is in none of its rules.
//
// Each package has its list in testdata/mutants.txt. The lines of a mutant, in this order, and an
// empty line after them:
//
//	B10: a LUN is written to, whatever it has shown     the rule, and what is wrong with the mutant
//	in ./diskquorum ./diskquorum/keeper                 whose tests must notice; left out: this package's
//	at lanes.go                                         a file of this package, or a path below the root
//	-a text that stands there once, in lines            without line end: part of a line will do
//	+what stands there instead                          no such line: nothing
//
// at, - and + may come several times. That each applies and compiles is a test, which make verify runs.
//
// It runs the go command and needs a minute for every thirty mutants or so.
package main
