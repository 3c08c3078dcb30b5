package fencing

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A copy of a NodeFence has all of its content, and shares nothing that is written to.
func TestACopyOfANodeFence(t *testing.T) {
	from := &NodeFence{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "v"}, Finalizers: []string{"f"}}}
	fill(reflect.ValueOf(&from.Spec).Elem())
	fill(reflect.ValueOf(&from.Status).Elem())
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	to := from.DeepCopyObject().(*NodeFence)
	if !reflect.DeepEqual(from, to) {
		t.Errorf("%+v became %+v", from, to)
	}
	spoil(reflect.ValueOf(&to.Status).Elem())
	to.Labels["k"], to.Finalizers[0] = "", ""
	if after, err := json.Marshal(from); err != nil || string(after) != string(text) {
		t.Errorf("writing to its copy has made of %s\n%s (%v)", text, after, err)
	}
}

// fill gives each field a value.
func fill(v reflect.Value) { visit(v, "x", 7, true) }

// spoil writes to each place that is not empty.
func spoil(v reflect.Value) { visit(v, "spoilt", 9, false) }

func visit(v reflect.Value, text string, number int64, makes bool) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(number, 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int:
		v.SetInt(number)
	case reflect.Bool:
		v.SetBool(makes)
	case reflect.Pointer:
		if makes {
			v.Set(reflect.New(v.Type().Elem()))
		}
		visit(v.Elem(), text, number, makes)
	case reflect.Slice:
		if makes {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			visit(v.Index(i), text, number, makes)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i), text, number, makes)
		}
	default:
		panic("a field of a kind that this does not know: " + v.Kind().String())
	}
}
