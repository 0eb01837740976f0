"""Exit status 0 if the Kafka broker at HOST:PORT answers a metadata request and names a broker. Standard library only."""

import socket
import struct
import sys

METADATA, VERSION = 3, 7  # version 7: the newest whose header and arrays are not in the compact encoding


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("closed before the whole answer came")
        data += chunk
    return data


def brokers(address):
    """Number of brokers that the broker at `address` knows."""
    host, port = address.rsplit(":", 1)
    client = b"sakia-services"
    # No topics (an empty array, not null: null would ask for all), and never create one.
    request = struct.pack(">hhih", METADATA, VERSION, 1, len(client)) + client + struct.pack(">ib", 0, 0)
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        answer = read_exactly(connection, size)
    _correlation, _throttle, count = struct.unpack_from(">iii", answer)
    return count


if __name__ == "__main__":
    try:
        found = brokers(sys.argv[1])
    except (OSError, struct.error) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    sys.exit(0 if found > 0 else f"{sys.argv[1]}: answered, but names no broker")
