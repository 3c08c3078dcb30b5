// Package access says what the agent asks of the Kubernetes API, as data: the chart's roles
// and admission policies are compared with it by the tests, and nothing else is granted.
//
// Whoever makes a new kind of request adds its permission here, and the tests of
// integration/deploy say what the chart lacks. The functions are pure and return copies.
package access
