# SPDX-License-Identifier: MIT
"""Binary messages with numbers of seven bits a byte, the lowest first (LEB128)."""


class Message:
    """Bytes that are read one after the other; false at their end."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def __bool__(self):
        return self.at < len(self.data)

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
