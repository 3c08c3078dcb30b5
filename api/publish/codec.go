package publish

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// encoded is an event as it is sent to every subscriber. All streams share the bytes, which never change. They are not
// from a pool, so no stream can give them back.
type encoded struct{ data mem.BufferSlice }

// encode returns ev encoded, or nil if that is not possible: then each stream fails with the cause.
func encode(ev *fencingv1.Event) *encoded {
	data, err := protobuf.Marshal(ev)
	if err != nil {
		return nil
	}
	return &encoded{mem.BufferSlice{mem.SliceBuffer(data)}}
}

// codec is grpc's codec, but also accepts messages that are already encoded. If a client asks for compression, each
// stream compresses afterwards by itself.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	if e, ok := message.(*encoded); ok {
		return e.data, nil
	}
	return c.CodecV2.Marshal(message)
}
