// Package arch has only tests, of promises of the repository that no compiler checks. They read the source of all
// packages and the documents, run in seconds, and fail with the reason for the rule.
//
//   - arrows_test.go: which package may import which, which foreign modules are used where, and that
//     the pure packages have no I/O, clock, lock or goroutine.
//   - tool_test.go: what fencectl must not link, in any way.
//   - shape_test.go: package comments, sizes of files and functions, no sleeping tests.
//   - words_test.go: one concept, one word (docs/glossary.md), and no number of a requirement that
//     no file here defines.
//   - docs_test.go: links, make targets, commands, metrics and reasons named in the
//     documents exist, and docs/decision-table.md shows the table that is tested.
//   - counts_test.go, measure_test.go: how much there is (docs/development/counts.tsv), and that nothing grows without a
//     reason.
//   - deploy_test.go: the metrics and runbook sections that the chart's alerts and dashboard
//     name exist.
//
// Each rule is a function over parsed files, and is itself tested with a file that breaks it.
package arch
