package config

import (
	"reflect"
	"slices"
	"strings"
)

// field is one key of a section.
type field struct {
	key   string
	index []int
	tag   reflect.StructTag
}

// fieldsOf lists the keys of a section in the order of the struct, including those of an inline section.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		key, how, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if how == "inline" {
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append(slices.Clone(f.Index), inner.index...)
				out = append(out, inner)
			}
			continue
		}
		if key == "" || key == "-" {
			continue
		}
		out = append(out, field{key, f.Index, f.Tag})
	}
	return out
}

// Laboratory is the section of keys that only a measurement or a laboratory sets. It counts as one key.
const Laboratory = "experimental"

// Keys lists the path of every key that a file may have, in the order of the struct;
// [] stands for each element of a list.
func Keys() []string { return keysOf("", reflect.TypeFor[Config]()) }

func keysOf(path string, t reflect.Type) []string {
	var out []string
	for _, f := range fieldsOf(t) {
		at, ft := child(path, f.key), t.FieldByIndex(f.index).Type
		out = append(out, at)
		if ft.Kind() == reflect.Slice {
			at, ft = at+"[]", ft.Elem()
		}
		if isSection(ft) {
			out = append(out, keysOf(at, ft)...)
		}
	}
	return out
}

// isSection says whether a struct is a section with keys, and not a single value.
func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0 }
