// Package arch contains only tests. They check promises of the repository that no compiler checks. They read the source
// of all packages and the documents, run in seconds, and fail with the reason for the rule.
//
//   - arrows_test.go checks which package may import which and which foreign modules are used where, and that the pure
//     packages have no I/O, clock, lock or goroutine.
//   - tool_test.go checks what fencectl must not link, not even indirectly.
//   - shape_test.go checks package comments and the sizes of files and functions, and that no test sleeps.
//   - words_test.go checks that each concept has one word (docs/glossary.md), and that no text names the number of a
//     requirement that no file here defines.
//   - docs_test.go checks that the links, make targets, commands, metrics and reasons in the documents exist, and that
//     docs/decision-table.md contains the table that is tested.
//   - counts_test.go and measure_test.go count what people have to read and maintain (docs/development/counts.tsv), and
//     check that no figure grows without a reason.
//   - deploy_test.go checks that the metrics and runbook sections exist that the chart's alerts and dashboard name.
//
// Each rule is a function over parsed files, and is itself tested with a file that breaks it.
package arch
