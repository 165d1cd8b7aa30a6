"""FarmHash ``fingerprint64`` in Python, for Pythons that pyfarmhash has no wheel for.

Names of schemas are made of it, from a few kilobytes. It is FarmHash's ``farmhashna::Hash64``;
the letters are those of its source.
"""

# ruff: noqa: PLR2004  # the lengths are FarmHash's

from __future__ import annotations

from struct import unpack_from

_64 = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_SEED = 81
Pair = tuple[int, int]


def fingerprint64(text: bytes) -> int:
    """Return the hash of some bytes, of 64 bits."""
    length = len(text)
    if length <= 16:
        return _to_16(text)
    if length <= 32:
        return _to_32(text)
    if length <= 64:
        return _to_64(text)
    x, y = _SEED, (_SEED * _K1 + 113) & _64
    z = (_mixed((y * _K2 + 113) & _64) * _K2) & _64
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _fetch(text, 0)) & _64
    end = (length - 1) // 64 * 64
    for at in range(0, end, 64):
        x, y, z, v, w = _round(text, at, (x, y, z), (v, w), (_K1, 1))
    mul = (_K1 + ((z & 0xFF) << 1)) & _64
    first = (w[0] + ((length - 1) & 63)) & _64
    v = ((v[0] + first) & _64, v[1])
    w = ((first + v[0]) & _64, w[1])
    x, y, z, v, w = _round(text, length - 64, (x, y, z), (v, w), (mul, 9))
    return _pair(_pair(v[0], w[0], mul) + _mixed(y) * _K0 + z, _pair(v[1], w[1], mul) + x, mul)


def _round(
    text: bytes, at: int, xyz: tuple[int, int, int], vw: tuple[Pair, Pair], by: Pair
) -> tuple[int, int, int, Pair, Pair]:
    """Take 64 bytes in."""
    (x, y, z), (v, w), (mul, nine) = xyz, vw, by
    x = (_rotated(x + y + v[0] + _fetch(text, at + 8), 37) * mul) & _64
    y = (_rotated(y + v[1] + _fetch(text, at + 48), 42) * mul) & _64
    x ^= (w[1] * nine) & _64
    y = (y + v[0] * nine + _fetch(text, at + 40)) & _64
    z = (_rotated(z + w[0], 33) * mul) & _64
    v = _weak(text, at, v[1] * mul, x + w[0])
    w = _weak(text, at + 32, z + w[1], y + _fetch(text, at + 16))
    return z, y, x, v, w


def _weak(text: bytes, at: int, a: int, b: int) -> Pair:
    w, x, y, z = unpack_from("<4Q", text, at)
    a += w
    b = _rotated(b + a + z, 21)
    c = a
    a += x + y
    b += _rotated(a, 44)
    return (a + z) & _64, (b + c) & _64


def _to_16(text: bytes) -> int:
    length = len(text)
    mul = _K2 + length * 2
    if length >= 8:
        a, b = _fetch(text, 0) + _K2, _fetch(text, length - 8)
        return _pair(_rotated(b, 37) * mul + a, (_rotated(a, 25) + b) * mul, mul)
    if length >= 4:
        (first,), (last,) = unpack_from("<I", text, 0), unpack_from("<I", text, length - 4)
        return _pair(length + (first << 3), last, mul)
    if not length:
        return _K2
    y, z = text[0] + (text[length >> 1] << 8), length + (text[-1] << 2)
    return (_mixed(((y * _K2) ^ (z * _K0)) & _64) * _K2) & _64


def _to_32(text: bytes) -> int:
    length = len(text)
    mul = _K2 + length * 2
    a, b = _fetch(text, 0) * _K1, _fetch(text, 8)
    c, d = _fetch(text, length - 8) * mul, _fetch(text, length - 16) * _K2
    return _pair(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c, mul)


def _to_64(text: bytes) -> int:
    length = len(text)
    mul = _K2 + length * 2
    a, b = _fetch(text, 0) * _K2, _fetch(text, 8)
    c, d = _fetch(text, length - 8) * mul, _fetch(text, length - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _pair(y, a + _rotated(b + _K2, 18) + c, mul)
    e, f = _fetch(text, 16) * mul, _fetch(text, 24)
    g, h = (y + _fetch(text, length - 32)) * mul, (z + _fetch(text, length - 24)) * mul
    return _pair(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, mul)


def _fetch(text: bytes, at: int) -> int:
    (number,) = unpack_from("<Q", text, at)
    return int(number)


def _rotated(number: int, by: int) -> int:
    number &= _64
    return (number >> by | number << (64 - by)) & _64


def _mixed(number: int) -> int:
    return number ^ (number >> 47)


def _pair(u: int, v: int, mul: int) -> int:
    u, v = u & _64, v & _64
    a = _mixed(((u ^ v) * mul) & _64)
    return (_mixed(((v ^ a) * mul) & _64) * mul) & _64
