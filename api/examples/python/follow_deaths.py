#!/usr/bin/env python3
"""Follow the deaths that the agent of this node proves, over its Unix socket.

Prints one line for each death that may be acted on, and for each that is withdrawn:

    fenced NODE BOOT PROOF
    withdrawn NODE BOOT

The rules are those of docs/consumers.md. Needs grpcio and protobuf (Debian: python3-grpcio, python3-protobuf), and the
modules that are made of api/v1/*.proto:

    python3 -m grpc_tools.protoc -I . --python_out=. fencing-agent/api/v1/fencing.proto fencing-agent/api/v1/status.proto

run in the folder above a checkout called fencing-agent. Without them the program asks the agent for its own descriptions,
which is what it does here: no generated code is needed.
"""

import os
import sys
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, message_factory

# Known to the pool of protobuf once they are imported.
from google.protobuf import duration_pb2, timestamp_pb2  # noqa: F401

SOCKETS = ["/var/run/fencing-agent.sock", "/run/fencing-agent/fencing-agent.sock"]
STALE = 5.0  # seconds: a status that is older is not the agent's word any more
FENCED = "NODE_STATE_FENCED"
FED = {"PERMISSION_FEED", "PERMISSION_HOLD", "PERMISSION_DISARM"}


def find_socket():
    if len(sys.argv) > 1:
        return sys.argv[1]
    if "FENCING_AGENT_SOCKET" in os.environ:
        return os.environ["FENCING_AGENT_SOCKET"]
    return next((s for s in SOCKETS if os.path.exists(s)), SOCKETS[0])


def status_class(channel):
    """The message Status, as the agent describes it by server reflection (grpc.reflection.v1)."""
    # The request has file_containing_symbol as field 4; the answer has file descriptors as field 4.1.
    symbol = b"fencing.v1.FencingStatus"
    request = b"\x22" + bytes([len(symbol)]) + symbol
    ask = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    answer = next(iter(ask(iter([request]))))
    pool = descriptor_pool.Default()
    files = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in fields(answer_of(answer), 1)]
    known = set()

    def add(f):
        for dep in f.dependency:
            other = next((o for o in files if o.name == dep), None)
            if other is not None and dep not in known:
                add(other)
        if f.name not in known and not f.name.startswith("google/"):
            pool.Add(f)
        known.add(f.name)

    for f in files:
        add(f)
    status = pool.FindMessageTypeByName("fencing.v1.Status")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(status)
    return message_factory.MessageFactory(pool).GetPrototype(status)  # protobuf before 4.22, as Debian 12 has it


def fields(data, number):
    """The length-delimited fields of that number in a message."""
    i = 0
    while i < len(data):
        key, i = varint(data, i)
        if key & 7 == 0:
            _, i = varint(data, i)
            continue
        if key & 7 != 2:
            raise ValueError("not an answer of server reflection")
        size, i = varint(data, i)
        if key >> 3 == number:
            yield data[i : i + size]
        i += size


def varint(data, i):
    value = shift = 0
    while True:
        value |= (data[i] & 0x7F) << shift
        i += 1
        if data[i - 1] < 0x80:
            return value, i
        shift += 7


def answer_of(data):
    return next(fields(data, 4))


def may_act(status):
    """Whether this agent's word about others allows anything: its node has quorum and is fed, and it is not old."""
    verdict = status.verdict
    permission = verdict.DESCRIPTOR.fields_by_name["permission"].enum_type.values_by_number[verdict.permission].name
    age = abs(time.time() - status.time.seconds)
    return verdict.quorum and not verdict.expired and permission in FED and age <= STALE


def name_of(message, field):
    number = getattr(message, field)
    value = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return value.name if value else str(number)


class Book:
    """The deaths that were told."""

    def __init__(self):
        self.told = {}

    def note(self, status):
        for node in status.nodes:
            if node.reachable:  # that boot answers: a death of it is none
                self.withdraw(node.name, node.token.boot_nonce)
                continue
            death = node.death
            if name_of(node, "state") != FENCED or not death.boot_nonce or death.proof == 0 or node.name == status.self.name:
                continue
            if may_act(status) and (node.name, death.boot_nonce) not in self.told:
                self.told[node.name, death.boot_nonce] = True
                print("fenced", node.name, death.boot_nonce, name_of(death, "proof")[len("PROOF_") :].lower(), flush=True)

    def withdraw(self, name, boot):
        if self.told.pop((name, boot), None):
            print("withdrawn", name, boot, flush=True)


def main():
    book = Book()
    Status = None
    while True:  # an agent is restarted now and then: what was told stays told
        try:
            with grpc.insecure_channel("unix:" + find_socket(), options=[("grpc.default_authority", "localhost")]) as channel:
                Status = Status or status_class(channel)
                watch = channel.unary_stream(
                    "/fencing.v1.FencingStatus/WatchStatus",
                    request_serializer=empty_pb2.Empty.SerializeToString,
                    response_deserializer=Status.FromString,
                )
                for status in watch(empty_pb2.Empty()):
                    book.note(status)
        except grpc.RpcError as error:
            print("waiting for the agent:", error.details(), file=sys.stderr, flush=True)
        time.sleep(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
