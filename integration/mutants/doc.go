// Command mutants removes the guards of ballot, lease and publication, one at a time, and runs the tests that must
// notice. A test suite that does not fail without a guard does not test it.
//
//	go run ./integration/mutants [-run REGEXP] [-list] [-v]
//
// A mutant is one or more replacements of source text, which the compiler gets with -overlay: the working tree is
// never touched. Each mutant is caught by a failing test or survives. The program ends with 1 if one survives, no
// longer applies to the source, or does not compile. The rule numbers are those of docs/lease.md; a guard that
// belongs to none of its rules has a word.
//
// Each package has its list in testdata/mutants.txt. The lines of a mutant come in this order, with an empty line
// after them:
//
//	B10: a LUN is written to, whatever it has shown     the rule, and what is wrong with the mutant
//	in ./diskquorum ./diskquorum/keeper                 packages whose tests must notice; default: this package
//	at lanes.go                                         a file of this package, or a path below the root
//	-a text that occurs there once, in lines            its last line may end within a line of the file
//	+the text that replaces it                          without such a line the text is removed
//
// at, - and + may occur several times. A test, which make verify runs, checks that each mutant applies and compiles.
//
// The program runs the go command and needs about a minute for every thirty mutants.
package main
