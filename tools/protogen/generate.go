package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// importPrefix precedes a file's path in its descriptor and in the imports of other files. Descriptor paths are global
// in a Go program: two modules that both link an "api/v1/status.proto" would panic at start.
const importPrefix = "fencing-agent/"

// plugins are run in this order on every file; both are `tool` lines of tools/go.mod.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

// generate returns the contents of all generated files by path.
func generate(ctx context.Context, repo *os.Root, protos []string) (map[string][]byte, error) {
	req, err := compile(ctx, repo, protos)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, plugin := range plugins {
		resp, err := runPlugin(ctx, plugin, req)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		for _, f := range resp.GetFile() {
			p, ok := strings.CutPrefix(f.GetName(), importPrefix)
			if !ok || f.GetInsertionPoint() != "" {
				return nil, fmt.Errorf("%s: unexpected output %q", plugin, f.GetName())
			}
			if _, twice := out[p]; twice {
				return nil, fmt.Errorf("%s: %s is written twice", plugin, p)
			}
			out[p] = []byte(f.GetContent())
		}
	}
	return out, nil
}

// compile turns the sources into the request that protoc would send to a plugin. It leaves out the compiler version, so
// that the output names no protoc.
func compile(ctx context.Context, repo *os.Root, protos []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(p string) (io.ReadCloser, error) {
				name, ok := strings.CutPrefix(p, importPrefix)
				if !ok {
					return nil, os.ErrNotExist
				}
				return repo.Open(name)
			},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	names := make([]string, len(protos))
	for i, p := range protos {
		names[i] = importPrefix + p
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	set := closure{seen: map[string]bool{}}
	for _, f := range files {
		set.add(f)
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      set.files,
	}, nil
}

// closure collects files and their imports, with the imports first, as plugins expect.
type closure struct {
	seen  map[string]bool
	files []*descriptorpb.FileDescriptorProto
}

func (c *closure) add(f protoreflect.FileDescriptor) {
	if c.seen[f.Path()] {
		return
	}
	c.seen[f.Path()] = true
	for i := range f.Imports().Len() {
		c.add(f.Imports().Get(i).FileDescriptor)
	}
	c.files = append(c.files, protodesc.ToFileDescriptorProto(f))
}

func runPlugin(ctx context.Context, plugin string, req *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	resp := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(out.Bytes(), resp); err != nil {
		return nil, err
	}
	if resp.Error != nil {
		return nil, fmt.Errorf("%s", resp.GetError())
	}
	return resp, nil
}
