package main

import "strings"

// askedFor returns the -run pattern among the arguments of go test, and the depth of the tests that it asks for: 1 is a
// test, and 2 a subtest. go test also runs the tests around a subtest, whether or not it exists.
func askedFor(args []string) (pattern string, depth int) {
	for i, arg := range args {
		if arg == "-args" || arg == "--args" {
			break
		}
		name, value, given := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "-") || strings.TrimPrefix(strings.TrimLeft(name, "-"), "test.") != "run" {
			continue
		}
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		pattern = value
	}
	for i, alternative := range outside(pattern, '|') {
		elements := outside(alternative, '/')
		for len(elements) > 1 && elements[len(elements)-1] == "" {
			elements = elements[:len(elements)-1]
		}
		if i == 0 || len(elements) < depth {
			depth = len(elements)
		}
	}
	return pattern, depth
}

// outside splits a pattern like package testing: at separators outside of brackets and parentheses.
func outside(pattern string, separator byte) []string {
	var parts []string
	brackets, parentheses, begin := 0, 0, 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '[':
			brackets++
		case c == ']':
			brackets = max(brackets-1, 0)
		case c == '(' && brackets == 0:
			parentheses++
		case c == ')' && brackets == 0:
			parentheses--
		case c == '\\':
			i++
		case c == separator && brackets == 0 && parentheses == 0:
			parts = append(parts, pattern[begin:i])
			begin = i + 1
		}
	}
	return append(parts, pattern[begin:])
}
