"""One command to a MongoDB server: a minimal client for the demo and for starting a replica set. Standard library only.

    mongo_command.py mongodb://127.0.0.1:27017/ DATABASE '{"ping": 1}'     prints the answer as JSON
    mongo_command.py mongodb://127.0.0.1:27017/ --become-primary           exit status 0 once it is a writable primary

Speaks OP_MSG without TLS, passwords or discovery. Values in and out are relaxed extended JSON.
"""

import base64
import datetime
import json
import socket
import struct
import sys
import urllib.parse

OP_MSG = 2013
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def encode_value(value):
    """(type byte, bytes) of one value; one-key objects such as {"$date": ...} are the types that JSON lacks."""
    if isinstance(value, bool):
        return 0x08, bytes([value])
    if isinstance(value, int):
        return (0x10, struct.pack("<i", value)) if -(2**31) <= value < 2**31 else (0x12, struct.pack("<q", value))
    if isinstance(value, float):
        return 0x01, struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode() + b"\0"
        return 0x02, struct.pack("<i", len(data)) + data
    if value is None:
        return 0x0A, b""
    if isinstance(value, list):
        return 0x04, encode({str(i): item for i, item in enumerate(value)})
    if "$date" in value:
        when = datetime.datetime.fromisoformat(value["$date"].replace("Z", "+00:00"))
        return 0x09, struct.pack("<q", (when - EPOCH) // datetime.timedelta(milliseconds=1))
    if "$numberLong" in value:
        return 0x12, struct.pack("<q", int(value["$numberLong"]))
    if "$oid" in value:
        return 0x07, bytes.fromhex(value["$oid"])
    if "$minKey" in value:
        return 0xFF, b""
    if "$maxKey" in value:
        return 0x7F, b""
    return 0x03, encode(value)


def encode(document):
    body = b""
    for name, value in document.items():
        kind, data = encode_value(value)
        body += bytes([kind]) + name.encode() + b"\0" + data
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def decode_value(kind, data, at):
    """(value, position after it)"""
    fixed = {0x01: "<d", 0x10: "<i", 0x12: "<q", 0x09: "<q", 0x11: "<Q", 0x08: "<?"}
    if kind in fixed:
        (value,) = struct.unpack_from(fixed[kind], data, at)
        after = at + struct.calcsize(fixed[kind])
        if kind == 0x09:
            text = (EPOCH + datetime.timedelta(milliseconds=value)).isoformat(timespec="milliseconds")
            value = {"$date": text.replace("+00:00", "Z")}
        return value, after
    if kind in (0x03, 0x04):
        (size,) = struct.unpack_from("<i", data, at)
        fields = decode(data[at : at + size])
        return (fields if kind == 0x03 else list(fields.values())), at + size
    if kind == 0x02:
        (size,) = struct.unpack_from("<i", data, at)
        return data[at + 4 : at + 3 + size].decode(), at + 4 + size
    if kind == 0x05:
        (size,) = struct.unpack_from("<i", data, at)
        return {"$binary": base64.b64encode(data[at + 5 : at + 5 + size]).decode()}, at + 5 + size
    if kind == 0x07:
        return {"$oid": data[at : at + 12].hex()}, at + 12
    names = {0x0A: None, 0xFF: {"$minKey": 1}, 0x7F: {"$maxKey": 1}}
    if kind in names:
        return names[kind], at
    raise ValueError(f"BSON type {kind:#x} is not supported")


def decode(data):
    document, at = {}, 4
    while data[at] != 0:
        kind, end = data[at], data.index(b"\0", at + 1)
        document[data[at + 1 : end].decode()], at = decode_value(kind, data, end + 1)
    return document


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        chunk = connection.recv(min(size - len(data), 1 << 20))
        if not chunk:
            raise ConnectionError("closed before the whole answer came")
        data += chunk
    return data


def run(uri, database, command):
    """The server's answer; an answer with ok: 0 is an answer too."""
    target = urllib.parse.urlsplit(uri)
    if target.scheme != "mongodb" or target.username or "," in target.netloc or "tls=true" in target.query:
        raise ValueError("only mongodb://HOST:PORT without password, TLS and further hosts is spoken here")
    body = struct.pack("<iB", 0, 0) + encode({**command, "$db": database})
    with socket.create_connection((target.hostname, target.port or 27017), timeout=10) as connection:
        connection.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, OP_MSG) + body)
        (size,) = struct.unpack("<i", read_exactly(connection, 4))
        answer = read_exactly(connection, size - 4)
    return decode(answer[12 + 5 :])


def become_primary(uri):
    """None if it is a writable primary, else why not; starts the set, or renames its member if the port has changed."""
    member = urllib.parse.urlsplit(uri).netloc
    hello = run(uri, "admin", {"hello": 1})
    if hello.get("isWritablePrimary"):
        return None
    found = run(uri, "admin", {"replSetGetConfig": 1})
    if found["ok"] != 1:
        wanted = {"_id": "rs0", "members": [{"_id": 0, "host": member}]}
        answer = run(uri, "admin", {"replSetInitiate": wanted})
    elif found["config"]["members"][0]["host"] != member:
        config = found["config"]
        config["members"][0]["host"] = member
        config["version"] += 1
        answer = run(uri, "admin", {"replSetReconfig": config, "force": True})
    else:
        answer = {}
    return answer.get("errmsg", "not a writable primary yet")


def main(arguments):
    if len(arguments) == 2 and arguments[1] == "--become-primary":
        return become_primary(arguments[0])
    if len(arguments) != 3:
        return __doc__
    answer = run(arguments[0], arguments[1], json.loads(arguments[2]))
    print(json.dumps(answer, ensure_ascii=False))
    return 0 if answer.get("ok") == 1 else f"refused: {answer.get('errmsg')}"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        sys.exit(f"{sys.argv[1] if len(sys.argv) > 1 else 'mongo_command'}: {error}")
