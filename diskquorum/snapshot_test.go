package diskquorum

import (
	"hash/maphash"
	"reflect"
	"unsafe"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// snapshot copies and hashes the whole state of a rig, including all unexported fields of the arbiters: a new field is
// automatically part of the state.

// immutable values are shared by copies.
var immutable = map[reflect.Type]bool{
	reflect.TypeFor[*roster.Roster]():       true,
	reflect.TypeFor[*Superblock]():          true,
	reflect.TypeFor[*Grant]():               true,
	reflect.TypeFor[*netgossip.Statement](): true,
}

// cloner copies a graph of values; a value that is reached twice is copied once.
type cloner struct {
	pointers map[unsafe.Pointer]reflect.Value
	slices   map[sliceKey]reflect.Value
}

type sliceKey struct {
	data unsafe.Pointer
	cap  int
}

func cloneRig(r *rig) *rig {
	c := cloner{map[unsafe.Pointer]reflect.Value{}, map[sliceKey]reflect.Value{}}
	out := reflect.New(reflect.TypeFor[*rig]()).Elem()
	c.copy(out, reflect.ValueOf(&r).Elem())
	return out.Interface().(*rig)
}

// plan describes a struct type.
type plan struct {
	deep   []int // fields whose contents must be copied
	hashed []hashedField
}

type hashedField struct {
	index int
	most  uint64 // bound of a counter; 0: none
}

var plans = map[reflect.Type]*plan{}

func planOf(t reflect.Type) *plan {
	p, ok := plans[t]
	if ok {
		return p
	}
	p = &plan{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !isFlat(f.Type) && !immutable[f.Type] && f.Type.Kind() != reflect.Func {
			p.deep = append(p.deep, i)
		}
		name := t.Name() + "." + f.Name
		if most := bounded[name]; !irrelevant[name] && f.Type.Kind() != reflect.Func {
			p.hashed = append(p.hashed, hashedField{i, most})
		}
	}
	plans[t] = p
	return p
}

// field makes an unexported field accessible.
func field(v reflect.Value, i int) reflect.Value {
	f := v.Field(i)
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}

// flat types hold no pointers: they are copied as bytes.
var flat = map[reflect.Type]bool{}

func isFlat(t reflect.Type) bool {
	known, ok := flat[t]
	if ok {
		return known
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
	case reflect.Array:
		known = isFlat(t.Elem())
	case reflect.Struct:
		known = true
		for i := range t.NumField() {
			known = known && isFlat(t.Field(i).Type)
		}
	default:
		known = true // strings are immutable
	}
	flat[t] = known
	return known
}

func (c *cloner) copy(dst, src reflect.Value) {
	t := src.Type()
	if isFlat(t) || immutable[t] {
		dst.Set(src)
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		c.copyPointer(dst, src)
	case reflect.Struct:
		if src.CanAddr() {
			dst.Set(src)
		}
		for _, f := range planOf(t).deep {
			c.copy(field(dst, f), field(src, f))
		}
	case reflect.Array:
		for i := range src.Len() {
			c.copy(dst.Index(i), src.Index(i))
		}
	case reflect.Slice:
		c.copySlice(dst, src)
	case reflect.Map:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeMapWithSize(t, src.Len()))
		for _, k := range src.MapKeys() {
			v := reflect.New(t.Elem()).Elem()
			from := reflect.New(t.Elem()).Elem()
			from.Set(src.MapIndex(k))
			c.copy(v, from)
			dst.SetMapIndex(k, v)
		}
	case reflect.Interface:
		if src.IsNil() {
			return
		}
		from := reflect.New(src.Elem().Type()).Elem()
		from.Set(src.Elem())
		to := reflect.New(from.Type()).Elem()
		c.copy(to, from)
		dst.Set(to)
	default: // functions
		dst.Set(src)
	}
}

func (c *cloner) copyPointer(dst, src reflect.Value) {
	if src.IsNil() {
		return
	}
	if known, ok := c.pointers[src.UnsafePointer()]; ok && known.Type() == src.Type() {
		dst.Set(known)
		return
	}
	p := reflect.New(src.Type().Elem())
	c.pointers[src.UnsafePointer()] = p
	c.copy(p.Elem(), src.Elem())
	dst.Set(p)
}

func (c *cloner) copySlice(dst, src reflect.Value) {
	if src.IsNil() {
		return
	}
	key := sliceKey{src.UnsafePointer(), src.Cap()}
	known, ok := c.slices[key]
	if !ok || known.Type() != src.Type() {
		all := src.Slice3(0, src.Cap(), src.Cap())
		known = reflect.MakeSlice(src.Type(), src.Cap(), src.Cap())
		c.slices[key] = known
		if isFlat(src.Type().Elem()) {
			reflect.Copy(known, all)
		} else {
			for i := range src.Len() {
				c.copy(known.Index(i), src.Index(i))
			}
		}
	}
	dst.Set(known.Slice3(0, src.Len(), src.Cap()))
}

// irrelevant lists fields that do not influence later events: scratch buffers, output that the next step overwrites,
// numbers that only must be unique, and counters for people.
var irrelevant = map[string]bool{
	"rig.logf": true, "rig.sb": true, "rig.sbs": true, "rigNode.readBufs": true, "rigNode.out": true, "rigIO.op": true,
	"oracle.fatal": true, "oracle.trace": true, "oracle.adoptions": true, "oracle.lost": true, "oracle.won": true, "oracle.outvoted": true,
	"nodeTruth.reading": true, "Arbiter.ops": true, "Arbiter.out": true, "Arbiter.att": true, "Arbiter.nextID": true,
	"Arbiter.nextTransfer": true, "Arbiter.lastEnd": true, "lane.buf": true, "lane.op": true, "lane.transfer": true,
	"proposal.ios": true,
	// With one device these follow from the I/O under way, the phase and the written records.
	"Arbiter.cur": true, "Arbiter.records": true,
}

// bounded lists counters whose greater values are all equivalent.
var bounded = map[string]uint64{"entry.beats": 2, "entry.unread": unreadableAfter, "sighting.unread": unreadableAfter, "Table.reads": 1, "Arbiter.staleReads": 1}

type hasher struct {
	h    maphash.Hash
	seen map[unsafe.Pointer]uint64
}

var hashSeed = maphash.MakeSeed()

func hashRig(r *rig) uint64 {
	h := hasher{seen: map[unsafe.Pointer]uint64{}}
	h.h.SetSeed(hashSeed)
	h.value(reflect.ValueOf(r))
	// An I/O is identified by its kind and place, not by its number.
	for _, n := range r.nodes {
		for _, ios := range [][]*rigIO{n.ios, n.orphans} {
			for _, io := range ios {
				h.io(io)
			}
		}
	}
	for _, io := range r.late {
		h.io(io)
	}
	return h.h.Sum64()
}

func (h *hasher) io(io *rigIO) {
	if io != nil {
		h.number(uint64(io.op.Device)<<48 | uint64(io.op.Kind)<<32 | uint64(io.op.Offset))
	}
}

func (h *hasher) number(n uint64) { maphash.WriteComparable(&h.h, n) }

func (h *hasher) value(v reflect.Value) {
	t := v.Type()
	switch t.Kind() {
	case reflect.Pointer:
		h.pointer(v)
	case reflect.Struct:
		for _, f := range planOf(t).hashed {
			if f.most > 0 {
				h.number(min(f.most, number(v.Field(f.index))))
				continue
			}
			h.value(v.Field(f.index))
		}
	case reflect.Slice:
		h.number(uint64(v.Len()))
		if t.Elem().Kind() == reflect.Uint8 {
			_, _ = h.h.Write(v.Bytes())
			return
		}
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	case reflect.Array:
		if v.CanAddr() && t.Elem().Kind() == reflect.Uint64 {
			_, _ = h.h.Write(unsafe.Slice((*byte)(v.Addr().UnsafePointer()), t.Size()))
			return
		}
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	case reflect.Map: // in no order: the sum of its parts
		sum := uint64(v.Len())
		for k, e := range v.Seq2() {
			part := hasher{seen: h.seen}
			part.h.SetSeed(hashSeed)
			part.value(k)
			part.value(e)
			sum += part.h.Sum64()
		}
		h.number(sum)
	case reflect.Interface:
		if v.IsNil() {
			h.number(0)
			return
		}
		h.value(v.Elem())
	case reflect.String:
		h.number(uint64(v.Len()))
		_, _ = h.h.WriteString(v.String())
	case reflect.Func:
	default:
		h.number(number(v))
	}
}

// pointer follows a pointer once. An immutable value is identified by its contents.
func (h *hasher) pointer(v reflect.Value) {
	if v.IsNil() {
		h.number(0)
		return
	}
	if v.Type() == reflect.TypeFor[*roster.Roster]() {
		return // the pointer of a node, which never changes
	}
	if !immutable[v.Type()] {
		if n, ok := h.seen[v.UnsafePointer()]; ok {
			h.number(n)
			return
		}
		h.seen[v.UnsafePointer()] = uint64(len(h.seen)) + 1
	}
	h.number(1)
	h.value(v.Elem())
}

func number(v reflect.Value) uint64 {
	switch {
	case v.CanInt():
		return uint64(v.Int())
	case v.CanUint():
		return v.Uint()
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	case v.Kind() == reflect.Bool:
		return 0
	}
	panic("snapshot: a field of type " + v.Type().String())
}
