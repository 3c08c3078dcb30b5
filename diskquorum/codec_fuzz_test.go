package diskquorum

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"
)

// FuzzDecodeSlot decodes arbitrary blocks, as they are and with a correct seal: the decoder never panics, and a record
// that it accepts can be encoded again without loss.
func FuzzDecodeSlot(f *testing.F) {
	s := sampleSlot()
	f.Add(encodeSlot(f, &s), uint64(6))
	f.Add(make([]byte, BlockSize), uint64(1))
	f.Add([]byte("short"), uint64(0))
	rng := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		s := randomSlot(rng)
		f.Add(encodeSlot(f, &s), s.Sequence)
	}
	f.Fuzz(func(t *testing.T, b []byte, sequence uint64) {
		_ = DecodeSlot(b, sampleID, 5, 0, new(Slot))
		block := make([]byte, BlockSize)
		copy(block, b)
		index, which := int(block[slIndex]), int(sequence%2)
		if index >= MaxSlots {
			return
		}
		seal(block, kindSlot, sampleID, slotBlock(index, which), sequence)
		var got, again Slot
		if err := DecodeSlot(block, sampleID, index, which, &got); err != nil {
			return
		}
		if err := DecodeSlot(encodeSlot(t, &got), sampleID, index, which, &again); err != nil {
			t.Fatalf("an accepted slot cannot be written: %v", err)
		}
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("got  %+v\nagain %+v", got, again)
		}
	})
}

// FuzzDecodeSuperblock does the same for the superblock.
func FuzzDecodeSuperblock(f *testing.F) {
	sb := sampleSuperblock()
	f.Add(encodeSuperblock(f, &sb, 0))
	f.Add(make([]byte, BlockSize))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = DecodeSuperblock(b, 0)
		_, _ = ReadSuperblock(b)
		_, _, _ = DecodeScratch(b, &sb)
		block := make([]byte, BlockSize)
		copy(block, b)
		seal(block, kindSuperblock, [16]byte{}, 0, binary.LittleEndian.Uint64(block[sbID:]))
		got, err := DecodeSuperblock(block, 0)
		if err != nil {
			return
		}
		if again, err := DecodeSuperblock(encodeSuperblock(t, &got, 0), 0); err != nil || again != got {
			t.Fatalf("got %+v, again %+v, %v", got, again, err)
		}
	})
}
