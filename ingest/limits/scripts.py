"""What the shared store decides, each as one script: the rules of ``ingest.limits.rules``, atomic on the server.

The server's clock counts. Keys, all below one prefix: ``b:<principal>`` and ``c`` hold when a bucket is full
(microseconds), ``f:<principal>`` the fingerprints of a minute, ``w:<principal>:<kind>:<fp>`` a window (hash: ``e``
when it ends, ``o`` who opened it, ``k`` and ``f`` whose lines it stands for, ``n`` and ``s`` what was counted and a
sample of it), ``d`` all windows and ``o:<replica>`` those of one replica by when they end (milliseconds). Every key
has an expiry, so that nothing stays behind where all replicas have died or the server began a new life.

A caller gives up after its budget, and the server may be stopped for longer than that: a command that comes to
its turn after its ``deadline`` does nothing, since the caller has counted the report elsewhere by then.
"""

from __future__ import annotations

from typing import Final

GRACE_MS: Final = 3_000
"""A window that its opener has not closed this long after its end may be closed by any replica."""

LATEST_MS: Final = 20_000
"""This long after its end a window is gone from the store, closed or not."""

_TIME = """
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
"""

ADMIT: Final = (
    _TIME
    + """
-- KEYS: bucket, ceiling. ARGV: interval and size of both, in microseconds.
-- Returns 0 for admitted, else 1 or 2 for the one that is empty; microseconds to wait; the server's milliseconds.
local now = t[1] * 1000000 + t[2]
local full = {}
for i = 1, 2 do
  local interval, size = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  if interval > 0 then
    local at = math.min(math.max(tonumber(redis.call('GET', KEYS[i]) or 0), now), now + size)
    local wait = at - now - size + interval
    if wait > 0 then return {i, wait, ms} end
    full[i] = at + interval
  end
end
for i = 1, 2 do
  if full[i] then
    redis.call('SET', KEYS[i], string.format('%.0f', full[i]), 'PX', math.ceil((full[i] - now) / 1000))
  end
end
return {0, 0, ms}
"""
)

MEET: Final = (
    _TIME
    + f"""
-- KEYS: the window, that of 'other', the fingerprints of the minute, 'd', 'o:<me>'.
-- ARGV: deadline, fp, cap, repeat, length (all ms), me, whose window, sample.
-- Returns 'late'; 'open' for a report to be logged or 'count' for one that was counted, with when the window ends
-- and its fingerprint; the server's milliseconds last.
if ms > tonumber(ARGV[1]) then return {{'late', 0, '', ms}} end
local w, fp, cap = KEYS[1], ARGV[2], tonumber(ARGV[3])
if cap > 0 and fp ~= 'other' and redis.call('EXISTS', w) == 0 and redis.call('SISMEMBER', KEYS[3], fp) == 0 then
  local known = redis.call('SCARD', KEYS[3])
  if known >= cap then
    w, fp = KEYS[2], 'other'
  else
    redis.call('SADD', KEYS[3], fp)
    if known == 0 then redis.call('PEXPIRE', KEYS[3], 60000) end
  end
end
local length = tonumber(ARGV[5])
if length == 0 then return {{'open', ms, fp, ms}} end
local ends = redis.call('HGET', w, 'e')
if ends then
  redis.call('HINCRBY', w, 'n', ARGV[4])
  redis.call('HSETNX', w, 's', ARGV[8])
  return {{'count', tonumber(ends), fp, ms}}
end
ends = ms + length
redis.call('HSET', w, 'e', ends, 'o', ARGV[6], 'k', ARGV[7], 'f', fp)
redis.call('PEXPIRE', w, length + {LATEST_MS})
for i = 4, 5 do
  redis.call('ZADD', KEYS[i], ends, w)
  -- 'd' is of all replicas, and another's windows may be longer.
  local stays = length + {LATEST_MS}
  if redis.call('PTTL', KEYS[i]) < stays then redis.call('PEXPIRE', KEYS[i], stays) end
end
return {{'open', ends, fp, ms}}
"""
)

CLOSE: Final = (
    _TIME
    + f"""
-- KEYS: 'd', 'o:<me>'. ARGV: deadline, prefix of 'o:', the most to close, 'all' to close mine before their time.
-- Returns 'late' or 'done', 'more' where there is more to close; how many of mine stay open; the windows that had
-- something to tell, six values each: whose, fp, when it ended, repeat, sample, 1 where another had opened it;
-- the server's milliseconds last.
if ms > tonumber(ARGV[1]) then return {{'late', 0, {{}}, ms}} end
local told = {{}}
local most = tonumber(ARGV[3])
local function close(found, foreign)
  for _, w in ipairs(found) do
    local h = redis.call('HMGET', w, 'k', 'f', 'e', 'n', 's', 'o')
    redis.call('ZREM', KEYS[1], w)
    redis.call('ZREM', KEYS[2], w)
    if h[6] then redis.call('ZREM', ARGV[2] .. h[6], w) end
    redis.call('DEL', w)
    if h[4] then
      for i = 1, 5 do told[#told + 1] = h[i] end
      told[#told + 1] = foreign
    end
  end
end
local mine = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[4] == 'all' and '+inf' or ms, 'LIMIT', 0, most)
close(mine, 0)
local left = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms - {GRACE_MS}, 'LIMIT', 0, most)
close(left, 1)
local more = (#mine == most or #left == most) and 'more' or 'done'
return {{more, redis.call('ZCARD', KEYS[2]), told, ms}}
"""
)
